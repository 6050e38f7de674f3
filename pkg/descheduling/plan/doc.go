// Package plan turns what the strategies of a DeschedulerPolicy pick into the moves of one
// cycle. It is pure: no clock, lock, goroutine, randomness or I/O.
//
// Start reading at Make, then planner.offer (what may stand against a candidate, cheapest
// first), landing.go (where its replacement would go) and History (what earlier cycles did).
//
// A landing place is found by the scheduler's own filters and scores, on the cluster as the
// scheduler will see it when the replacement arrives: victims of the plan still stand, as
// terminating pods, and the replacements of earlier moves are there. So no place is given
// away twice, and what a victim leaves behind is given to nobody before it is gone.
//
// Invariants:
//
//   - No move without a landing place unless the policy says nodeFit: false, and none to a
//     node with which the strategy that picked the pod would not be content.
//   - With Input.Pinned false nothing makes the replacement go to its landing place, so a pod
//     moves only if every node that the scheduler would rank first is such a place.
//   - What was moved is not moved again for balance's sake within MaxCooldown, and of an owner
//     whose replacement came back to the node it had left nothing is.
//   - The moves together take no more from a disruption budget than it has left, and from an
//     owner no more pods than the policy lets go at once.
//   - What is refused again and again is asked for less and less often, and a namespace whose pods always are to
//     move leaves some of a cycle to others.
//   - Equal inputs give equal plans. A dry run is the plan, not carried out.
package plan
