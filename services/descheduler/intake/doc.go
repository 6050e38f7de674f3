// Package intake is the descheduler's view of the cluster, as the facts show it, and of the requests and their
// outcomes, as the decisions show them.
//
// Start reading at Reader.View, which gives a cycle all of this together. Four goroutines feed a Reader, with one
// method each: Follow reads facts, Apply applies them, Decisions reads requests and outcomes, Promises follows the
// ledger. Each changes its own part under the Reader's lock and wakes the cycle that waits in View. A View is a copy
// or immutable in all its parts: the cycle reads it without a lock, and what arrives meanwhile is for the next
// cycle.
//
// What a crash leaves: nothing. A new process reads the facts from the newest snapshot, the decisions from the
// oldest that the log keeps, and the ledger completely. It does not know which of the earlier requests were its
// own; their outcomes are then counted in no replica's metrics.
//
// Invariants:
//
//   - A View is returned only when progress of every requested kind is defined (no record that was in the log at
//     start is missing), and every decision up to a given sequence and the ledger up to a given revision have been
//     applied. So a new leader knows the requests of the one before it, and the ledger up to the revision at which
//     it began to lead.
//   - After a lost or trimmed tail of the decisions the Reader reads them again. It keeps what it knew, which at
//     worst leaves a pod alone for a while longer.
package intake
