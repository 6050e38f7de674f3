// Package queue is the service that watches Kubernetes on behalf of all other services and offers pods to scheduler
// shards.
//
// It has two jobs. As the writer of facts, it turns the API server's lists and watches into the log of facts (a fact
// is one version of one object), fenced so that only one replica writes. As the queue, it tracks every pod that waits
// to be placed and offers it, in order and under a lease, to the shard that holds its partition. Any number of
// replicas run. One leads; the others follow the log and the ledger and take over with warm state.
//
// Start reading at Queue.Run, then loop.go (the one goroutine that decides) and reign.go (what a leader does). The
// three stages are intake, decide and commit.
//
// Each leadership consists of rounds. A round reads the log to its end, opens a new fact epoch, lists everything,
// publishes the differences, closes the epoch and then follows the watches. A round repairs whatever happened to the
// log before it, so first start, takeover, a lost tail and a foreign writer share one code path. Opening an epoch at
// every takeover costs a pause of one list, in which the new leader could not offer work anyway. In return, a reader
// that holds a tail which the log has lost is always detected.
//
// Invariants: a deposed replica appends nothing (the stream's last sequence fences it); a fact's progress never
// claims a fact that does not precede it in the log; every unbound pod is in exactly one pool; an offer grants
// nothing.
package queue
