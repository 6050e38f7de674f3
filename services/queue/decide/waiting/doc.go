// Package waiting holds the pods that wait to be placed, each in exactly one pool, and decides which pool that is. It
// is pure: it is given the time, and what happened.
//
// Start reading at Pools, then place.go (which pool a pod belongs into, and every move between pools), entry.go (what
// is known of one pod), lane.go (pods that were rejected alike share a few attempts), index.go (what wakes a parked
// pod) and journal.go (what happened while a pod was being tried).
//
// The pools pass on what others must know through three ports that the caller implements: Report, Gates and Leases.
// World is the core's view of the facts and of the ledger; the pools only read it.
//
// # Pools
//
//	gated     has scheduling gates                   leaves when the gates are gone
//	active    may be offered                         leaves with an offer
//	backoff   waits after a failed attempt           leaves when the backoff ends, or early if a shard is idle
//	parked    was rejected by rules                  leaves with an event that a rule listens to, or by the flush
//	offered   is leased to a shard                   leaves with the answer, or when the lease ends
//	held      has a reservation in the ledger        leaves when it is bound or the reservation is certainly gone
//	grouped   another member stands for its gang     leaves when it has to stand for the gang itself (unit.go)
//
// Quarantine is a part of parked that only a change of the pod itself ends. Pods of active that wait for a permit of
// their lane are kept in the lane, and count as active.
//
// # Moves
//
// Every move goes through Pools.Enter, which takes the pod out of its old pool and the indexes of that pool (Detach),
// puts it into the new one and adds it to the new indexes. Functions above it only choose the pool: Free for a pod that
// nothing detains, Requeue for one that must respect its backoff, Park for one that was rejected. So a pod is never in
// two pools, and never in an index of a pool that it has left; Pools.Check compares both.
//
// # Cost
//
// A move costs the logarithm of the pool's size, as pools are heaps, plus one entry for each rule in the index of
// parked pods. A change of the cluster costs one hint for each group of parked pods that it can reach, not one for
// each pod: pods that a rule treats alike form one group. Ten thousand equal pods are the case that the sizes are
// chosen for.
package waiting
