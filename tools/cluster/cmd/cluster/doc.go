// Command cluster builds and runs the local Kubernetes cluster that Berth is developed, tested and measured against,
// and the programs it is compared with.
//
// Every subcommand writes messages for users to stderr and, where there is a result, one JSON document to stdout. The
// exit status is 0 exactly when the command succeeded.
package main
