// Package scheduler is the facade of a scheduler shard. N shards are active at once and are equal: each owns some of
// the pod partitions (and nothing else), prefers its home nodes softly, decides on its own in-memory state, and
// makes its reservations in the ledger, which resolves conflicts between shards over the same room.
//
// Rooms:
//
//	intake  facts, ledger changes and offers, gathered into one input
//	decide  the decision core: pure, effects as data
//	commit  reservation transactions and the decisions log
//
// What can be lost on the way: offers and requests for work (their leases expire), and the message that a pod was
// placed (binders find the reservation in the ledger). A shard has no Kubernetes credentials and calls no Kubernetes
// API.
//
// Start reading at Scheduler.Run, then decide.
package scheduler
