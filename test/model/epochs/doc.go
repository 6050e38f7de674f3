// Package epochs models a partition that passes from one shard to another and back while decisions wait (pkg/ledger:
// T13, T1 and the epoch that it compares; pkg/membership).
//
// Two shards take the partition in turns; either may keep pods, decisions and a transaction without an answer from a
// time when it had the partition before. A shard reads the ledger through its watch, revision by revision and
// arbitrarily late, and ahead of that from the answers to refused transactions. There are two nodes with room for one
// pod each, and pods that fit on either. Nothing is bound: package reserve models the rest of a reservation's life. A
// reservation may be taken back.
//
// Invariants: a pod is reserved once; no node is overcommitted, every reservation counted on its own node; and no
// decision of an ended epoch commits.
//
// Start reading at world (the state), then model.next (the possible steps).
package epochs
