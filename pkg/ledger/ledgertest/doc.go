// Package ledgertest is the contract of the ledger, in the form of tests that every store must pass: Run checks
// ledger.Store and ledger.Elections, RunProtocol the transactions built on them.
//
// Start reading at Harness, which an adapter must provide.
package ledgertest
