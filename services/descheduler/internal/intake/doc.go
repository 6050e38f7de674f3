// Package intake is the descheduler's view of the world: the cluster as the facts tell it,
// and what has been asked and answered as the decisions tell it.
//
// Start reading at Room.View, which hands both to a cycle together. Three goroutines feed a
// Room, one method each: Follow reads facts, Apply applies them, Decisions reads asks and
// outcomes.
//
// Invariants:
//
//   - A View is given out only when progress of every kind asked for is defined (nothing
//     that stood in the log at start is missing) and every decision up to a given sequence
//     has been taken in. So a new leader knows what the one before it asked for.
//   - A lost or trimmed tail of the decisions makes the Room read them again; what it knew
//     stays, which at worst leaves a pod alone for a while longer.
package intake
