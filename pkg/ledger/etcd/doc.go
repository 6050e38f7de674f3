// Package etcd carries the ledger out on etcd 3.6 or later: transactions, watches, leases
// and elections, all under one key prefix.
//
// It is the only importer of the etcd client. Start reading at Open, then Store.Commit,
// whose mapping of errors is what callers rest on: *ledger.TxnError means surely not
// carried out, any other error means the outcome is unknown. Nothing here retries a write.
// Where there are several servers, lookout takes the client off one that hangs.
//
// The store's history must be compacted by the server (auto-compaction, a few minutes of
// retention): the ledger changes its documents thousands of times per second.
package etcd
