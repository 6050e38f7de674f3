// Package anomaly finds what should not be in the life of pods: one that waits for nothing and
// is not placed, one workload that is preempted again and again, binds that keep being turned
// down, a promise of the ledger that nobody keeps, a pod that only the sweep has found.
//
// It reads the decisions in the order of the log, with what else the queue that leads has at
// hand, and decides nothing: what it finds is a metric and a line of `berth status`. It is pure:
// time comes in with what has happened, and the same story gives the same findings. What it
// remembers is bounded by its window and by a number of names.
//
// Start reading at Rule, then Watch.Findings.
package anomaly
