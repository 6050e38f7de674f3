// Package simulate computes the consequences of a change to a cluster: nodes drained, added or gone, other rules, a
// descheduling policy, more pods. It plays the consequences through on a copy of the state, by the rules that the
// services decide by: package placement for places and preemption, package descheduling/plan for a policy, package
// ledger/view for the usage of nodes.
//
// One queue is played, in its order, by one shard that looks at all nodes, and time stands still: a deleted pod is
// gone at once, and its owner creates the replacement at once. So a report shows which pods fit, which do not, and
// which must be evicted; a real cluster may choose another one of equally good nodes.
//
// Pure: no clock, no I/O, no randomness. Equal inputs give equal reports.
//
// Start reading at Run.
package simulate
