// Package reserve reserves places for the attempts that have a node: one transaction (T1) for as many attempts as
// fit in it. An attempt whose document, guard or claim has changed leaves the batch and is decided again. An attempt
// that loses the race tries its next-best node, waits for the change that it has lost to, or asks for a turn. Nodes
// that the ledger does not know yet are admitted first (T15).
//
// Start reading at Reserver.
package reserve
