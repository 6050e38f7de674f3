// Package pki makes the certificates of one installation. A service has one certificate, which is its identity
// everywhere: as a client of etcd (common name) and NATS (DNS name), and as a server of its own HTTP port. A store has
// two: one towards clients, and one towards the other members of its cluster. The latter is of an authority of its own,
// so that no service's certificate lets its holder join a store as a member.
//
// Where cert-manager or another authority runs, it makes the same secrets; nothing of Berth
// depends on this package but `berth certs`.
//
// Start reading at Issue.
package pki
