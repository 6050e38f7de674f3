// Package reach connects a command on an operator's machine to the stores of an installation in a cluster. It needs
// the operator's kubeconfig alone: the API server forwards a port of a store's pod, and a secret holds the certificate
// of the installation's observer, which reads the log and the ledger and asks the services. RBAC decides who may do
// both: the Role NAME-observer of the installation's namespace permits them.
//
// Start reading at Open.
package reach
