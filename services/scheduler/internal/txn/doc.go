// Package txn has the one transaction of a shard that is in flight. A Slot sends it, sends it again unchanged while its
// outcome is unknown, applies what the answer shows of the ledger, and hands the outcome to the Proposal that it came
// from. Reservations, registrations of terms and all changes of plans go through it.
//
// A crash while a transaction is in flight leaves all of it or nothing: the ledger shows which.
//
// Start reading at Slot.
package txn
