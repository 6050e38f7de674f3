// Package simulate computes the consequences of a change to a cluster: nodes drained, added or gone, other rules, a
// descheduling policy, more pods. It plays the consequences through on a copy of the state, by the rules that the
// services decide by: package placement for places and preemption, package descheduling/plan for a policy, package
// ledger/view for the usage of nodes.
//
// One queue is played, in its order, by one shard that looks at all nodes, and time stands still: a deleted pod is
// gone at once, and its owner creates the replacement at once. So a report shows which pods fit, which do not, and
// which must be evicted; a real cluster may choose another one of equally good nodes.
//
// Pure: no clock, no I/O, no randomness. Equal inputs give equal reports. A run takes the state that it gets for
// itself and changes it; several runs need several copies.
//
// # The steps of a run
//
//  1. Changes become facts, applied to the state like facts of the log, in this order: added nodes and pods, removed
//     nodes, drained nodes. So a replacement can be placed on an added node.
//  2. The policy, if there is one, plans one cycle, and its evictions are carried out.
//  3. All pods that wait join the queue with the replacements of evicted pods, by priority and age.
//  4. Each pod of the queue is tried once: it gets the best feasible node; or victims are evicted for it, whose
//     replacements join the queue; or it stays pending, with the message of the rules.
//
// Every eviction, of whichever step, charges the disruption budgets that cover the pod, except those of removed nodes,
// which ask no budget.
//
// # What it does not know
//
// Extenders and custom plugins are not called (Report.Unasked counts the pods for which they would be). Conflicts
// between shards, home nodes, backoff and quarantine do not occur. Pods that need minutes to terminate, controllers
// that create fewer replacements, and an autoscaler change a real outcome.
//
// Start reading at Run.
package simulate
