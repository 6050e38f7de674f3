// Package decide makes the asks of a cycle. It is pure: a cycle is a function of a snapshot
// of the cluster, the policy, what has been asked before, and the time.
//
// Start reading at Cycle, then pkg/descheduling/plan, which says which pods go, in which
// order and where to.
//
// What is promised in the ledger counts (Promises): the room of placeholders and reservations,
// the pods that plans have claimed, what is left of disruption budgets. Promises.Keep makes the
// T12 of each move.
//
// Invariants:
//
//   - Equal inputs give equal outcomes in equal order.
//   - The token of an ask is a function of the pod's UID and the number of the ask. Two
//     replicas that believe they lead ask with the same token, and a binder acts once per
//     token.
//   - Limits count asks, not successes.
package decide
