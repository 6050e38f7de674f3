// Package decide decides which evictions a cycle requests. It is pure: a cycle is a function of a snapshot of the
// cluster, the ledger's promises, the policy, the requests made before, and the time.
//
// Start reading at Cycle, then pkg/descheduling/plan, which determines which pods to evict, in which order and
// where to.
//
// The promises in the ledger count (Promises): the room of placeholders and reservations, the pods that plans have
// claimed, what is left of disruption budgets. Promises.BuildMove builds the T12 of each move.
//
// Who owns which state: a Promises belongs to one cycle. It begins as a copy of the ledger at the cycle's start;
// Cycle only reads it, and then package commit reports to it every transaction, committed (ApplyCommitted) or
// lost (ApplyConflict),
// so that the next one is built on the newest documents. Averages outlive cycles and belong to package intake; a
// cycle gets a copy.
//
// The way of one eviction: plan.Make moves a pod to a landing node; Cycle makes a request of the move (Eviction),
// with the place to keep if the policy keeps places and a controller replaces the pod; commit has BuildMove build T12,
// which puts a placeholder on the landing node and a claim on the victim, and appends the request with the revision
// of T12; a binder evicts the pod; the scheduler places the replacement on the placeholder. If the process dies in
// between, Leftovers of the next leader finds places without a valid request and gives them up.
//
// Invariants:
//
//   - Equal inputs give equal outcomes in equal order.
//   - The token of a request is a function of the pod's UID and the number of the request. Two replicas that
//     believe they lead use the same token, and a binder acts once per token.
//   - Limits count requests, not successes.
package decide
