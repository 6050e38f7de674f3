// Package names models nodes that are deleted and register again under their name: first documents, T15 (admit),
// hand-over and T16 (collect), and the rules that keep them from giving the capacity of one name out twice
// (pkg/ledger: Incarnation, Floor).
//
// There is one node name with capacity for one pod. One node after the other has this name, and all pods can be
// placed there. A shard knows which node has the name, the pods, and the ledger, each arbitrarily and independently
// late. Binders bind every pod with an entry, to the name; any process hands over; and a document without entries is
// collected at any moment, whether its node is deleted or not.
//
// Invariant: the pods bound to the name, plus those that any document still lets binders bind there, always fit. The
// check counts every document separately and shares no rule with the shards.
//
// Two things keep the number of states small. Of the ledger as a shard has read it only one version is kept, with the
// set of keys written since: a transaction compares exactly that. And late binds and half-finished fences are left to
// package reserve.
//
// Start reading at world (the state), then model.next (the possible steps).
package names
