// Package extender asks the HTTP extenders of a KubeSchedulerConfiguration: kube-scheduler's wire
// format (k8s.io/kube-scheduler/extender/v1, JSON over POST), its order of calls, and its rules
// about what is an error and what is not.
//
// Scheduler shards ask which nodes may be used and which are better (Set.Consult), and who may be evicted for a
// pod that fits nowhere (Set.Preempt); binders have an extender bind that says it does (Set.Bind). Nothing is
// decided here: what extenders say becomes placement.Opinion and placement.Candidate, which the rules of package
// placement take in like the rest of a question.
//
// Invariants: an extender is asked only about pods that it is interested in (placement.Interested);
// filters go one after the other, each seeing what the one before has left; a filter that fails ends
// the question unless its extender is ignorable, and so does one that is asked about victims; a prioritizer that
// fails gives no points.
//
// Start reading at Set.Consult; Client is one extender.
package extender
