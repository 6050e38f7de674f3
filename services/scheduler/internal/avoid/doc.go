// Package avoid keeps pods away for a while from nodes that facts and ledger would let them have. There are four
// reasons:
//
//   - Quarantine: reservations on the node keep failing. For all pods, until a pod is bound there.
//   - Doubt: its kubelet has rejected a pod for want of room that the facts show. For all pods, until the node or
//     its pods change.
//   - Turn: another shard places there for a moment. For all pods, and for as long as the caller says.
//   - its kubelet has rejected a pod for any reason. For the pods of the same owner.
//
// Each but Turn ends by itself; begun anew soon after, it lasts twice as long. Quarantine and Doubt are bounded to a
// share of the nodes: where more would qualify, it is not the nodes. What is remembered is bounded, too.
//
// Table is pure: facts, changes of the ledger and the time go in, and it sets what a engine.Engine may use. For
// one goroutine. Start reading at Table.
package avoid
