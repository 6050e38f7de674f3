// Package pki makes the certificates of one installation. A service has one certificate, which is its identity
// everywhere: as a client of etcd (common name) and NATS (DNS name), and as a server on its own HTTP port. A store
// has two: one for its clients, and one for the other members of its cluster. The latter is issued by a separate
// authority, so that no service's certificate lets its holder join a store as a member.
//
// Where cert-manager or another authority runs, it can make the same secrets; nothing in Berth depends on this
// package except `berth certs`.
//
// Start reading at Issue.
package pki
