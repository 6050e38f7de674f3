// Package shard holds what a shard knows: who it is, the facts, the ledger, and what counts on each node. The
// decision core applies facts and changes of the ledger to a State; the parts of the core read it.
//
// What is in a State can be rebuilt from the log and the ledger, but for the epochs that have ended (LoseEpochs),
// which are forgotten without harm: a transaction in such an epoch fails again.
//
// For one goroutine. Start reading at State.
package shard
