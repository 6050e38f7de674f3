// Package mem is the ledger's store in memory. It is the counterpart of the etcd adapter for tests, simulation and
// what-if, with the same revisions, limits and errors (both pass ledgertest).
//
// Leases expire only when a test requests it (Expire). The fault switches (LoseAnswers, FailTxns, HoldWatches,
// BreakWatches, Compact) produce the rare failures of a real store on demand.
//
// It has the properties of etcd on which the protocol relies: each change has one revision; a failed transaction
// returns the current values of all compared keys; watches deliver whole revisions, in order, and can start in the
// past until Compact; a key on a lease goes with it; an empty store is at revision 1. It differs in that nothing
// takes time and nothing is lost unless a switch is set. Backup and Restore play a store that was restored from a
// backup.
//
// All state is behind one lock. Waiters (watches, candidates) wait for Store.mu.changed, a channel that is closed and
// replaced at each change, and then check their condition again.
//
// Start reading at Store.Commit. Each running Watch is one goroutine that ends with its context; there are no
// others.
package mem
