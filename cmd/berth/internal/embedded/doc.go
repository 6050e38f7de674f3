// Package embedded runs the stores of `berth up` inside its own process: a one-member etcd for the ledger and a NATS
// server with JetStream for the log, both durable in the data directory.
//
// The data directory holds:
//
//	berth.lock      locked by the one process that uses the directory
//	endpoints.json  where the stores listen, for operator commands (mode 0600)
//	etcd/, nats/    the stores' own files
//	sock/           etcd's sockets, while it runs
//
// Etcd listens on a unix socket and NATS on a loopback port with a random password: only users who may read the data
// directory can reach either.
//
// Start locks the directory, starts etcd, then NATS, and writes endpoints.json last, so that commands find only
// running stores. Stop stops NATS, then etcd, and unlocks the directory. A crash leaves the files of the stores, which
// they recover themselves, and an endpoints.json whose addresses no process serves; the kernel releases the lock, and
// the next start replaces the file.
//
// Start reading at Start.
package embedded
