// Package plan turns the pods that the strategies of a DeschedulerPolicy pick into the moves of one cycle. A move
// is the eviction of a pod so that its replacement runs elsewhere. The package is pure: no clock, lock, goroutine,
// randomness or I/O.
//
// Start reading at Make, then planner.offer (the checks of a candidate, cheapest first), landing.go (where its
// replacement would be placed) and History (what earlier cycles did).
//
// Who owns which state: History outlives a cycle and belongs to its reader, which feeds it from the log of
// decisions (services/descheduler/intake); a plan only reads a clone of it. Everything else lives for one Make:
// owners counts the pods of each controller, budgets what is taken from disruption budgets, namespaceShares what
// each namespace has had, and futureCluster the nodes with the moves planned so far.
//
// A landing place is found with the scheduler's own filters and scores, on the cluster as the scheduler will see it
// when the replacement arrives: victims of the plan are still there, as terminating pods, and so are the
// replacements of earlier moves. So no place is given away twice, and the place of a victim is not used before the
// victim is gone.
//
// The life of a request, as History sees it: Recall records it as requested, from which on the pod counts as under
// way. A binder reports it as evicted or refused, under the same attempt; or no outcome comes within InFlight, and
// the pod may be requested again under the next number. An eviction starts a pause of its owner that doubles with
// each further round. A refusal starts a pause of the pod, and of the owner if several rounds in a row are refused.
// A replacement that is found on the node that its predecessor had left ends the moves of its owner for
// MaxCooldown: without that, the scheduler and the descheduler could move the same pods for ever.
//
// Invariants:
//
//   - No move without a landing place unless the policy says nodeFit: false, and none to a node that the strategy
//     which picked the pod would not accept.
//   - With Input.Pinned false, nothing directs the replacement to its landing place, so a pod moves only if every
//     node that the scheduler would rank first is such a place.
//   - A pod that was moved is not moved again for balance within MaxCooldown, and no pod of an owner is moved whose
//     replacement came back to the node that it had left.
//   - The moves together take no more from a disruption budget than it has left, and no more pods from an owner
//     than the policy allows at once.
//   - Moves that are refused repeatedly are requested less and less often, and a namespace that always has pods to
//     move leaves a part of a cycle to others.
//   - Equal inputs give equal plans. A dry run is the plan that is not carried out.
package plan
