// Package document keeps what the binder knows about the ledger's documents beyond their content, and cleans them up.
//
// Store has the nodes' documents as last seen: from the watch, from a linearizable read, or from one of the binder's
// own transactions, whichever is newest. It records when each last changed, and when the ledger last vouched for it.
//
// Sweeper hands over the entries of idle documents (T5), drops what is left of plans in them (T8), settles budgets
// (T10), drops the records of ended plans, and collects the documents of objects that are gone (T16). Each change is
// one transaction that compares what it was built from: a second binder that does the same loses, and a crash before
// or after it leaves nothing to repair.
//
// The sweep is the last resort, not the rule: the next writer of a document hands its entries over in passing. So it
// touches only documents that have not changed for Limits.Idle, at most once in basis.RoundEvery, and only those of
// the binder's own partitions. Shards and the descheduler end their own plans; the sweep ends those of which the
// documents have not changed for Limits.Overdue, in addition to the time that leaving pods may take.
//
// Time here is the time since this binder first saw a revision, so that a binder that starts waits the full span
// again. What is sent is not remembered: the view of the ledger shows the outcome, and a lost transaction is built
// again from the newer documents.
//
// Start reading at Store, then Sweeper.Sweep.
package document
