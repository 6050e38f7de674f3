// Package bind binds the reservations that the ledger shows Committed, and takes back those that cannot be bound.
//
// Start reading at Reservations, then reservation.advance, then fence.
//
// # Types
//
//   - Reservations has the reservations of all partitions, by entry, pod and node. It follows the documents, attaches
//     hints from the log, and keeps the sets of those that wait or whose fence is refused. It alone changes them.
//   - reservation is the machine of one entry: it checks the pod and its node again (checker), waits for its turn
//     (turns), binds, and refreshes the bind's precondition after the pod has changed.
//   - fence is the machine that takes an entry back. It reports its progress to the reservation, which it does not
//     know.
//   - task is the part that both work on: the entry, the effect in flight and the transaction to repeat.
//   - environment is all that a machine sees of the binder. Through siblings it hands over a document that one of its
//     own calls has shown.
//
// # The way of a reservation
//
// The watch shows an entry in state Committed (Learn). The checker compares it with the facts: unseen waits for newer
// ones, over ends it, stale fences it. If it fits, it takes a turn, of which there are Limits.Binds, and emits a
// Bind. Done publishes DecisionBound. Moved reads the document and then binds with the pod's new version, provided
// that the pod still requests the same. Waiting polls until volumes or devices are ready. A refusal, too many lost
// versions, the deadline, or a shard that wants the place back (Entry.Wanted) end in a fence. The entry itself leaves
// the ledger by hand-over (package document), or by the fence's release.
//
// What to do next follows from the ledger and the facts alone. A binder that starts or takes a partition over has no
// other memory: it binds what is Committed, and finishes a fence that has been idle for Limits.Idle.
package bind
