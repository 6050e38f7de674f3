// Package deschedulingtest provides a cluster in a closed loop, for tests and measurements: pods are evicted, their
// owners create them again, and the placement rules place them.
//
// Start reading at Unbalanced, which draws a cluster with a history, then World.Evict, which is one round of the
// loop.
//
// A victim terminates while its replacement is placed, as with ReplicaSets: it still uses its resources, but spread
// rules no longer count it. Everything is derived from the seed.
package deschedulingtest
