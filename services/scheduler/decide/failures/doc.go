// Package failures remembers what a shard must not repeat for ever: plans that ended without a place for their pod,
// pods that could not be evicted, and gangs whose places could not all be held.
//
// A plan that ended for a reason other than its pod counts against the pod, and against each pair of the pod's owner
// and the owner of a victim. When a pod is bound, everything against its owner is cleared.
//
// The memory is not in the ledger: a restart or a change of partitions clears it. It is for one goroutine. Start
// reading at Memory.
package failures
