// Package embedded runs the stores of `berth up` inside its own process: a one-member etcd for the ledger and a NATS
// server with JetStream for the log, both durable in the data directory.
//
// The data directory holds:
//
//	berth.lock      locked by the one process that uses the directory
//	endpoints.json  where the stores listen, for operator commands (mode 0600)
//	etcd/, nats/    the stores' own files
//
// Etcd listens on a unix socket and NATS on a loopback port with a random password: only users who may read the data
// directory can reach either.
//
// Start reading at Start.
package embedded
