// Package mem is the ledger's store in memory. It is the counterpart of the etcd adapter for tests, simulation and
// what-if, with the same revisions, limits and errors (both pass ledgertest).
//
// Leases expire only when a test requests it (Expire). The fault switches (LoseAnswers, FailTxns, HoldWatches,
// BreakWatches, Compact) produce the rare failures of a real store on demand.
//
// Start reading at Store.Commit. Each running Watch is one goroutine that ends with its context; there are no
// others.
package mem
