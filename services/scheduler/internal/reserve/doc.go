// Package reserve makes reservations of the attempts that have a node: one transaction (T1) for as many as it takes. An
// attempt whose document, guard or claim has moved leaves the batch and is decided again; one that loses the race goes
// to its next-best node, waits for what it has lost to, or asks for a turn. Nodes that the ledger does not know yet are
// admitted first (T15).
//
// Start reading at Reserver.
package reserve
