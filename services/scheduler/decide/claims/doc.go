// Package claims decides what pods' claims to volumes and devices get on a node, and counts what is promised to them
// by the facts, by reservations in the ledger, and by pods that a shard has staged. A claim that only one pod may
// use, or a device pool, has a document of its own in the ledger, which a reservation holds.
//
// It is pure, and for one goroutine. Start reading at Book.
package claims
