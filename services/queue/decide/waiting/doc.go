// Package waiting holds the pods that wait to be placed, each in exactly one pool, and decides which pool that is. It
// is pure: it is given the time, and what happened.
//
// Start reading at Pools, then place.go (which pool a pod belongs into), entry.go (what is known of one pod), lane.go
// (pods that were rejected alike share a few attempts), index.go (what wakes a parked pod) and journal.go (what
// happened while a pod was being tried).
//
// The pools pass on what others must know through three ports that the caller implements: Report, Gates and Leases.
// World is the core's view of the facts and of the ledger; the pools only read it.
package waiting
