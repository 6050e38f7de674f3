// Package pki makes the certificates of one installation. A service has one certificate, which is its identity
// everywhere: as a client of etcd (common name) and NATS (DNS name), and as a server on its own HTTP port. A store has
// two: one for its clients, and one for the other members of its cluster. The latter is issued by a separate
// authority, so that no service's certificate lets its holder join a store as a member.
//
// The directory of an installation:
//
//	ca.crt, ca.key                                    the authority of services and of stores towards them
//	peers/ca.crt, peers/ca.key                        the authority of the members of a store
//	queue/, scheduler/, binder/, descheduler/, single/
//	etcd/, nats/, root/, prometheus/, observer/       ca.crt, tls.crt, tls.key of each member
//	etcd-peer/, nats-peer/                            the same, by the peers' authority
//	secrets.yaml                                      all members as Secrets, to be applied to the cluster
//
// # Renewal
//
// Issuing again replaces all certificates and keys; the authorities stay, so old and new certificates are accepted
// next to each other until the old ones expire. Running processes read the files of a changed Secret by themselves.
//
// An installation from before the stores' members had an authority of their own is upgraded in two runs: first with
// AcceptServicesAuthority, which makes members accept both, then without it.
//
// Where cert-manager or another authority runs, it can make the same secrets; nothing in Berth depends on this package
// except `berth certs`.
//
// Start reading at Issue.
package pki
