// Package intake is the descheduler's view of the cluster, as the facts show it, and of the requests and their
// outcomes, as the decisions show them.
//
// Start reading at Room.View, which gives a cycle all of this together. Four goroutines feed a Room, with one method
// each: Follow reads facts, Apply applies them, Decisions reads requests and outcomes, Promises follows the ledger.
//
// Invariants:
//
//   - A View is returned only when progress of every requested kind is defined (no record that
//     was in the log at start is missing), and every decision up to a given sequence and the
//     ledger up to a given revision have been applied. So a new leader knows the requests of the
//     one before it, and the ledger up to the revision at which it began to lead.
//   - After a lost or trimmed tail of the decisions the Room reads them again. It keeps what it
//     knew, which at worst leaves a pod alone for a while longer.
package intake
