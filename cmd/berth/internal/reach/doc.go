// Package reach connects a command on an operator's machine to the stores of an installation in a cluster. It needs
// only the operator's kubeconfig: the API server forwards a port of a store's pod, and a secret holds the certificate
// of the installation's observer, which reads the log and the ledger and asks the services. RBAC controls access to
// both: the Role NAME-observer in the installation's namespace grants it.
//
// Start reading at Open.
package reach
