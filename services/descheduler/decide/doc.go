// Package decide decides which evictions a cycle requests. It is pure: a cycle is a function of a snapshot of the
// cluster, the ledger's promises, the policy, the requests made before, and the time.
//
// Start reading at Cycle, then pkg/descheduling/plan, which determines which pods to evict, in which order and where
// to.
//
// The promises in the ledger count (Promises): the room of placeholders and reservations, the pods that plans have
// claimed, what is left of disruption budgets. Promises.Keep builds the T12 of each move.
//
// Invariants:
//
//   - Equal inputs give equal outcomes in equal order.
//   - The token of a request is a function of the pod's UID and the number of the request. Two
//     replicas that believe they lead use the same token, and a binder acts once per token.
//   - Limits count requests, not successes.
package decide
