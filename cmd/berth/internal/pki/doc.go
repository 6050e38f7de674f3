// Package pki makes the certificates of one installation: an authority, and for each member
// a certificate that is its identity everywhere, as a client of etcd (common name) and NATS
// (DNS name) and as a server of its own HTTP port.
//
// Where cert-manager or another authority runs, it makes the same secrets; nothing of Berth
// depends on this package but `berth certs`.
//
// Start reading at Issue.
package pki
