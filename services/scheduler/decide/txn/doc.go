// Package txn handles a shard's transaction in flight, of which there is at most one. A Slot sends it, resends it
// unchanged while its outcome is unknown, applies what the answer shows of the ledger, and reports the outcome to
// the Proposal that it came from. Reservations, registrations of terms and all changes of plans use it.
//
// The answer to a transaction has one of four kinds:
//
//   - unknown (an error): the identical transaction is sent again. Its attempts are doubtful from then on: an earlier
//     copy may have been committed, and its result undone by another member before this one is refused.
//   - refused for its size: nothing has happened, and no transaction of that size is tried for a while (Limits).
//   - committed: the view of the ledger learns the transaction's own puts, ahead of the watch, and Proposal.Done is
//     called.
//   - lost: the view learns the current values that the answer carries, and Proposal.Undone is called. An earlier
//     copy that was committed shows as a lost transaction whose documents are already there; that counts as committed
//     (a T1 decides it for each of its pods).
//
// A crash while a transaction is in flight leaves all of it or nothing: the ledger shows which.
//
// For one goroutine. Start reading at Slot.Send and Slot.OnResult.
package txn
