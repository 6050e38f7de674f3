// Package txn handles a shard's transaction in flight, of which there is at most one. A Slot sends it, resends it
// unchanged while its outcome is unknown, applies what the answer shows of the ledger, and reports the outcome to
// the Proposal that it came from. Reservations, registrations of terms and all changes of plans use it.
//
// A crash while a transaction is in flight leaves all of it or nothing: the ledger shows which.
//
// Start reading at Slot.
package txn
