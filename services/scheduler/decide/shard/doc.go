// Package shard holds what a shard knows: who it is, the facts, the ledger, and what counts on each node. The decision
// core applies facts and changes of the ledger to a State; the parts of the core read it.
//
// For one goroutine. Start reading at State.
package shard
