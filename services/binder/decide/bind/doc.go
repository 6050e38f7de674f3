// Package bind binds the reservations that the ledger shows Committed, and takes back those that cannot be bound.
//
// reservation is the binder's view of one entry: it checks the pod and its node again (checker), waits for its turn
// (turns), binds, refreshes the bind's precondition after the pod has changed, and fences the entry (fence) if it may
// not be bound any more. Reservations has all of them.
//
// Start reading at Reservations, then reservation.advance, then fence.
package bind
