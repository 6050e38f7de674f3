// Package ledgertest is the contract of the ledger, as tests that every store must pass:
// Run checks ledger.Store and ledger.Elections, RunProtocol the transactions on top.
//
// Start reading at Harness: what an adapter has to bring along.
package ledgertest
