// Package anomaly finds states and sequences of events in the life of pods that should not occur: a pod that waits for
// nothing and is not placed, a workload that is preempted again and again, binds that keep being rejected, an entry of
// the ledger that no service resolves, a pod that only the queue's sweep has found.
//
// It reads the decisions in the order of the log, with data that the leading queue has at hand, and decides nothing: a
// finding is a metric and a line of `berth status`. It is pure: times are arguments, and equal inputs give equal
// findings. Its memory is bounded by Window and by maxNames for each rule.
//
// There are two kinds of rules. Rules about repetition (preempted-again, preempts-in-vain, binds-rejected,
// fence-refused, caught-by-sweep) count events in Window; a Watch remembers these. Rules about age (pod-overdue,
// hold-overdue) compare how long something has been in its state with a limit; the caller lists these states for each
// evaluation (TimedState).
//
// A new leader reads the log again and so gets the same findings. What is about to be a finding on one leader may be a
// little later on the next: the ages of ledger entries begin when a queue first sees them.
//
// Start reading at Rule, then Watch.Findings.
package anomaly
