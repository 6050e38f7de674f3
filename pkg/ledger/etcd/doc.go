// Package etcd implements the ledger's store on etcd 3.6 or later: transactions, watches, leases and elections, all
// under one key prefix.
//
// It is the only package that imports the etcd client. Start reading at Open, then Store.Commit. Callers rely on
// how Commit maps errors: *ledger.TxnError means that the transaction was certainly not carried out; any other
// error means that the outcome is unknown. Nothing in this package retries a write. Where there are several
// servers, lookout disconnects the client from one that hangs.
//
// The server must compact the store's history (auto-compaction, a few minutes of retention): the ledger changes its
// documents thousands of times per second.
package etcd
