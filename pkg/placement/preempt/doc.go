// Package preempt determines which pods have to be evicted for a pod that fits on no node. Source:
// plugins/defaultpreemption and framework/preemption of kube-scheduler; docs/preemption.md is for users.
//
// # The search
//
// Run tries the nodes where evictions could help. Everything happens in a placement.WhatIf: no object changes.
//
//  1. On one node, all less important pods are removed. If the pod still does not fit, the node is refused with the
//     reasons of the rule that rejects it (nodeTrial.selectVictims).
//  2. The pods are put back one by one, the most important first, each only if the pod still fits. Those that cannot
//     come back are the victims. Pods whose eviction would exceed a disruption budget are put back first.
//  3. The victims' Cost is compared with that of other nodes; the cheapest plan wins.
//  4. Only if no node has a plan, pods on other nodes may become victims too, where anti-affinity or hard spread
//     refers to them (Search.crossNode).
//
// Example: a node of 8 CPUs runs A (priority 5, 4 CPUs), B (priority 1, 3 CPUs) and C (priority 0, 1 CPU). A pod
// of priority 10 requests 4 CPUs. Without all three it fits. A comes back (4 of 8 in use, fits), B comes back (7
// in use, 1 free: does not fit, so it is a victim), C comes back (5 in use, 3 free: does not fit, a victim).
// Victims: B and C.
//
// # Differences from kube-scheduler
//
// By default, victims never exceed a disruption budget (PDBRespect), all nodes are tried, pods that the preemptor's
// affinity needs stay (keepers), victims that are already terminating cost nothing, and devices of victims count as
// free. placement.PreemptionConfig turns each of these off, and the arguments of DefaultPreemption limit the nodes.
//
// # Main types
//
//   - Input and Result: what the caller knows, and the plan with its victims, keepers and charges to budgets.
//   - Search: one Run in progress. Package engine uses it too: it tries nodes in the same way and remembers the
//     results.
//   - nodeTrial: the search on one node. blockers: pods on other nodes that are in the way.
//   - Budgets: what disruption budgets leave. Cost: the order of plans.
//   - Candidate, Candidates and Among: the two halves of Run when HTTP extenders are asked in between.
//
// Start reading at Run, then nodeTrial.selectVictims. Like Profile.Evaluate, Run starts from scratch and is a
// function of its arguments; nothing here evicts a pod. The shard reserves the plan in the ledger, and binders
// evict.
package preempt
