// Package deschedulingtest is a cluster in a closed loop, for tests and measurements: pods
// are evicted, what owns them creates them again, and the placement rules put them somewhere.
//
// Start reading at Unbalanced, which draws a cluster that has been through something, then
// World.Evict, which is one turn of the loop.
//
// A victim terminates while its replacement is placed, as with ReplicaSets: it still takes up
// what it takes up, and spread rules count it no more. Everything follows from the seed.
package deschedulingtest
