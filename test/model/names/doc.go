// Package names models nodes that are deleted and register again under their name: first documents,
// T15 (admit), hand-over and T16 (collect), and what keeps them from giving the room of one name out
// twice (pkg/ledger: Incarnation, Floor).
//
// There is one node name with room for one pod, which stands for one node after the other, and pods that
// would all go there. A shard knows which node has the name, what the pods are, and the ledger, each as
// late as it likes and on its own. Binders bind whatever has an entry, to the name; anybody hands over;
// and a document without entries is collected at any moment, whether its node is gone or not.
//
// Invariant: bound to the name, or still to be bound there by any document, is never more than fits.
// It counts every document by itself: it shares no rule with the shards.
//
// Two things keep the number of states small. Of the ledger as a shard has read it only one version is
// kept, with what has been written since: a transaction compares exactly that. And binds that come late
// and fences that stop half-way are package reserve's.
//
// Start reading at world (what there is), then model.next (what can happen).
package names
