// Package scheduler is the facade of a scheduler shard. N shards are active at once and are equal: each owns some of
// the pod partitions (and nothing else), prefers its home nodes softly, decides on its own in-memory state, and
// makes its reservations in the ledger, which resolves conflicts between shards over the same room.
//
// Stages:
//
//	intake  facts, ledger changes and offers, gathered into one input
//	decide  the decision core: pure, effects as data
//	commit  reservation transactions and the decisions log
//
// Scheduler.Run starts one goroutine for each reader of intake and for each worker of commit, one each for the
// membership, the partition keeper, the measurement of the lag and the answers to people, and the deciding goroutine.
// That one alone touches the core (loop, driven by pkg/driver); a question about the core is run on it.
//
// A pod's way through a shard: the queue offers it (intake.Reader.Offers); the core picks a node and stages a
// reservation; commit writes it to the ledger (T1); the result returns to the core, which decides "placed"; commit
// appends that to the log. The next heartbeat no longer renews the offer.
//
// A shard that starts joins the membership, lists the ledger, reads the facts to the end of the log, and takes its
// partitions; it asks for work from then on. A shard that stops gives back the offers that it has not reserved, waits
// for the transaction in flight, writes the last decisions, and leaves its partitions to the others. A shard that
// crashes leaves the same things behind later: its leases expire.
//
// What can be lost on the way: offers and requests for work (their leases expire), and the message that a pod was
// placed (binders find the reservation in the ledger). A shard has no Kubernetes credentials and calls no Kubernetes
// API.
//
// Start reading at Scheduler.Run, then decide.
package scheduler
