// Package reach connects a command on an operator's machine to the stores of an installation in a cluster. It needs
// only the operator's kubeconfig: the API server forwards a port of a store's pod, and a secret holds the certificate
// of the installation's observer, which reads the log and the ledger and asks the services. RBAC controls access to
// both: the Role NAME-observer in the installation's namespace grants it.
//
// The steps, each bounded by requestTimeout:
//
//  1. Open reads the secret NAME-observer-tls; an installation without TLS has none.
//  2. Endpoint lists the store's pods and forwards a port of the first ready one, over a WebSocket, or SPDY for an
//     API server that does not offer that.
//  3. The command connects to the loopback address; TLS verifies the store by its service name, not by the address.
//  4. Close ends the forwarding.
//
// A forwarding that breaks is not repaired: a command lives for seconds, and reports the error. A service of Berth
// never uses this package.
//
// Start reading at Open.
package reach
