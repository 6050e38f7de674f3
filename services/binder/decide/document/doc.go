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
// Start reading at Store, then Sweeper.Sweep.
package document
