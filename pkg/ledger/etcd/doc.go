// Package etcd implements the ledger's store on etcd 3.6 or later: transactions, watches, leases and elections, all
// under one key prefix.
//
// It is the only package that imports the etcd client. Callers rely on how Commit maps errors: *ledger.TxnError means
// that the transaction was certainly not carried out; any other error means that the outcome is unknown. Nothing in
// this package repeats a write whose outcome is unknown: the caller sends the identical transaction again, and its
// compares decide.
//
// Three things are watched apart from the requests themselves:
//
//   - continuity: each answer must come from the same store, at a revision that is not lower than the ones seen
//     before, and the store must still know a value that it has delivered (the witness). Otherwise the store was
//     replaced or restored from a backup: every call fails from then on with *ledger.StoreReplacedError, and the
//     member that notices first closes the ledger's generation, so that members that start later notice too.
//   - lookout: where there are several servers, it probes each and disconnects the client from one that hangs, long
//     before gRPC's keep-alive would.
//   - patience: how long a request may take adapts to the answers, so that a request on its way to a dead leader is
//     given up early.
//
// A Store has goroutines of its own for the lookout, from Open until Close. Each Watch has two more, one that delivers
// and one that verifies the store, which end with its context; each session has the client's keep-alive.
//
// The server must compact the store's history (auto-compaction, a few minutes of retention): the ledger changes its
// documents thousands of times per second.
//
// Start reading at Open, then Store.Commit, then continuity.
package etcd
