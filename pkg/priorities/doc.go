// Package priorities reports how a cluster's pods and their requests are distributed over priorities, and whether
// preemption can still help any of them: when everything is important, nothing is.
//
// It warns in three cases: pods wait although no pod on a node has a lower priority; nearly all requests have the
// highest priority that users give; a quota for a PriorityClass is exhausted. `berth status` prints the report.
//
// Of is a pure function of lists of the API server's objects. Start reading there.
package priorities
