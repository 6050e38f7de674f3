// Package claims decides what pods' claims to volumes and devices get on a node, and counts what is promised to them
// by the facts, by reservations in the ledger, and by pods that a shard has staged. A claim that only one pod may
// use, or a device pool, has a document of its own in the ledger, which a reservation holds.
//
// A decision uses it in four steps. Book.SupplyFor determines what the pod needs, with the objects that its rules
// look up; Book.Available reports whether its exclusive claims are free; after a node has been chosen, Book.Pick
// determines what the claims get there; and Book.Take enters the pod as the holder when the transaction is built. A
// Supply is a value: the steps return a new one.
//
// The state is derived. deviceBook is built when the first pod names device claims, follows the changes of facts and
// ledger from then on, and is discarded when the facts are rebuilt. Promises of volumes are collected for each
// decision.
//
// It is pure, and for one goroutine. Start reading at Book.
package claims
