// Package perfconfig reads the workloads of upstream's scheduler_perf: a file of cases, each a
// list of operations with parameters, and workloads that give the parameters numbers
// (test/integration/scheduler_perf in k8s.io/kubernetes, README and operations.go). The files
// themselves are read from the module; nothing is copied.
//
// The subcommand perf of test/perf/cmd/berthbench drives a scheduler by them. Operations it does not carry out are
// read all the same, and Resolve names them when a workload wants one.
//
// Start reading at Load, then Case.Resolve.
package perfconfig
