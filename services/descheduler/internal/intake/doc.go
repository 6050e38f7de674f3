// Package intake is the descheduler's view of the world: the cluster as the facts tell it,
// and what has been asked and answered as the decisions tell it.
//
// Start reading at Room.View, which hands all to a cycle together. Four goroutines feed a Room,
// one method each: Follow reads facts, Apply applies them, Decisions reads asks and outcomes,
// Promises follows the ledger.
//
// Invariants:
//
//   - A View is given out only when progress of every kind asked for is defined (nothing
//     that stood in the log at start is missing) and every decision up to a given sequence
//     has been taken in. So a new leader knows what the one before it asked for; and the ledger
//     up to the revision at which it began to lead.
//   - A lost or trimmed tail of the decisions makes the Room read them again; what it knew
//     stays, which at worst leaves a pod alone for a while longer.
package intake
