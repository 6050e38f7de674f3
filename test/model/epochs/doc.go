// Package epochs models a partition that goes from one shard to another and comes back while decisions
// wait (pkg/ledger: T13, T1 and the epoch that it compares; pkg/membership).
//
// Two shards take the partition in turns; either may keep pods, decisions and a transaction without an
// answer from a time when it had the partition before. A shard learns of everything in the ledger by its
// watch, revision by revision and as late as it likes, and ahead of that what a refused transaction
// brings back. There are two nodes with room for one pod each, and pods that fit on either. Nothing is
// bound: what becomes of a reservation afterwards is package reserve's. It may be taken back.
//
// Invariants: a pod is reserved once; no node is overcommitted, every reservation counted on its own
// node; and nothing commits that was decided in an epoch that is over.
//
// Start reading at world (what there is), then model.next (what can happen).
package epochs
