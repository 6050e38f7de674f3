// Package extender calls the HTTP extenders of a KubeSchedulerConfiguration: kube-scheduler's wire format
// (k8s.io/kube-scheduler/extender/v1, JSON over POST), its order of calls, and its rules about which failures are
// errors.
//
// Scheduler shards ask which nodes may be used and which are better (Set.Consult), and which pods may be evicted
// for a pod that fits nowhere (Set.Preempt); binders ask an extender with a bindVerb to bind (Set.Bind). Nothing is
// decided here: the extenders' answers become placement.Opinion and preempt.Candidate, which the rules of package
// placement use like any other input.
//
// Invariants: an extender is asked only about pods that it is interested in (placement.Interested); filters are
// called one after the other, each with the nodes that the one before has left; a filter that fails ends the
// question unless its extender is ignorable, and so does an extender that is asked about victims; a prioritizer
// that fails gives no points.
//
// Start reading at Set.Consult; Client is one extender.
package extender
