// Package avoid keeps pods away for a while from nodes that the facts and the ledger would allow. There are four
// reasons:
//
//   - Quarantine: reservations on the node keep failing. For all pods, until a pod is bound there.
//   - Doubt: its kubelet has rejected a pod for lack of resources that are free according to the facts. For all pods,
//     until the node or its pods change.
//   - Turn: another shard places there for a moment. For all pods, and for as long as the caller requests.
//   - its kubelet has rejected a pod for any reason. For the pods of the same owner.
//
// Each but Turn also ends after a while. If it begins again soon after, it lasts twice as long. Quarantine and Doubt
// are limited to a share of the nodes: if more would qualify, the cause is not the nodes. The memory is bounded,
// too.
//
// Avoiding is a shard's advice to itself. Apart from turns, no other shard knows of it, and the ledger does not check
// it; so it may be wrong, and is lost with the process. It must never be the reason why a pod is parked:
// search.Searcher.FitsOnAvoided distinguishes a pod that fits nowhere from one that fits on an avoided node, which
// is retried instead.
//
// Table is pure: its inputs are facts, changes of the ledger and the time, and it sets which nodes an engine.Engine
// may use. For one goroutine. Start reading at Table.
package avoid
