// Package replica is what a member knows of the ledger: a View of all its documents, kept up to date by a watch.
//
// Follow reads the ledger and then watches it; View.Fold applies each Batch and reports the Changes. Ahead of the
// watch, a View learns from the member's own transactions (LearnOwn) and from those that lost (Learn). A View belongs
// to one goroutine. Its parts, one file each: the documents of nodes and their names (names.go), claims, budgets,
// volumes and plans (claims.go), terms and guards (terms.go), the generation (generation.go).
package replica
