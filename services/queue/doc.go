// Package queue is the service that watches Kubernetes for everyone else and hands pods to
// scheduler shards.
//
// It has two jobs. As the writer of facts it turns the API server's lists and watches into
// the log of facts, fenced so that only one replica writes. As the queue it knows every
// pod that waits to be placed and leases it, in order, to the shard that holds its
// partition. Any number of replicas run; one leads, the others follow log and ledger and
// take over with a warm picture.
//
// Start reading at Queue.Run, then loop.go (the one goroutine that decides) and reign.go
// (what a leader does). The rooms are internal/intake, internal/decide and
// internal/commit.
//
// Each leadership, and each repair of the log within one, is a round: read the log to its
// end, open a new fact epoch, list everything, publish what differs, close the epoch, then
// follow the watches. A round repairs whatever happened to the log before it, so there is
// one path for first start, takeover, a lost tail and a foreign writer. Opening an epoch at
// every takeover costs a pause of one list, in which the new leader could not offer work
// anyway, and buys that a reader which holds a tail the log has lost is always found out.
//
// Invariants: nothing is appended by a replica that was deposed (the stream's last
// sequence fences it); a fact's progress never claims what does not stand in front of it;
// every unbound pod is in exactly one pool; an offer grants nothing.
package queue
