// Package mem is the ledger in memory: the etcd adapter's twin for tests, simulation and
// what-if, with the same revisions, limits and errors (both pass ledgertest).
//
// Leases run out only when a test says so (Expire). The fault switches (LoseAnswers,
// FailTxns, HoldWatches, BreakWatches, Compact) make the rare cases of a real store happen
// on demand.
//
// Start reading at Store.Commit. Each running Watch is one goroutine that ends with its
// context; there are no others.
package mem
