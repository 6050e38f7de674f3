// Package reserve reserves places for the attempts that have a node: one transaction (T1) for as many attempts as
// fit in it. An attempt whose document, guard or claim has changed leaves the batch and is decided again. An attempt
// that loses the race tries its next-best node, waits for the change that it has lost to, or asks for a turn. Nodes
// that the ledger does not know yet are admitted first (T15).
//
//	staged ──build──► in the batch ──T1──► placed
//	   ▲       ├──► decided again: something that it counted has changed
//	   │       └──► fails: its reservation can be made nowhere
//	   │                                 └──► lost: next-best node (staged), or decided again, or given back
//	   └── the rest of a full batch, and winners of a batch that others have lost
//
// All attempts of a T1 are committed together or not at all. That one attempt's conflict costs the others another
// round trip is accepted: etcd's transactions have no parts, and conflicts are rare among home nodes. The invariant
// that keeps nodes from being overcommitted is in build: an attempt is sent only on the version of the document that
// it was decided on, or on the one that this shard's own last transaction made of it (docs/bugs.md, 1).
//
// For one goroutine. Start reading at Reserver.Send.
package reserve
