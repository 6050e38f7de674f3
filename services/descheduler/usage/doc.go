// Package usage queries a Prometheus server for the load of nodes, for strategies whose policy requires it.
//
// Start reading at Read. It runs before every cycle, on the cycle's goroutine, and keeps nothing between cycles: no
// connection, no token, no sample. A query must return a vector with one sample for each node, from 0 to 1, whose
// label instance is the node's name; nodes without a sample make the strategy fail (package descheduling).
//
// Invariants:
//
//   - Every query is sent once per cycle, however many strategies name it, with the same time for all.
//   - A query that fails makes the strategies that name it fail, with an error that explains what to do; the others
//     run.
//   - The token is read from its file for every cycle, so that a renewed one is used. No secret is read from
//     Kubernetes: the descheduler has no access to it.
package usage
