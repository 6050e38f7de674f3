// Package usage asks a Prometheus server how busy nodes are, for strategies whose policy says so.
//
// Start reading at Read.
//
// Invariants:
//
//   - Every query is asked once a cycle, however many strategies name it, at one time for all.
//   - A query that fails, fails the strategies that name it, in words that say what to do; the
//     others run.
//   - The token is read from its file for every cycle, so that a renewed one is used. No secret
//     is read from Kubernetes: the descheduler has no access to it.
package usage
