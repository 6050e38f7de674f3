// Package peers describes how the programs that Berth is compared with are started against a local cluster:
// kube-scheduler and the descheduler, both unchanged.
//
// kube-scheduler runs under its own Kubernetes identity, so the API server treats its requests as it would in a real
// cluster. The content of a configuration file is passed on unchanged, client rates included: a comparison must not
// be decided by a flag that this package chose.
package peers
