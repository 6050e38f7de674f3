// Package extender calls the HTTP extenders of a KubeSchedulerConfiguration: kube-scheduler's wire format
// (k8s.io/kube-scheduler/extender/v1, JSON over POST), its order of calls, and its rules about which failures are
// errors.
//
// Scheduler shards ask which nodes may be used and which are better (Set.Consult), and which pods may be evicted for a
// pod that fits nowhere (Set.Preempt); binders ask an extender with a bindVerb to bind (Set.Bind). Nothing is decided
// here: the extenders' answers become placement.Opinion and preempt.Candidate, which the rules of package placement
// use like any other input.
//
// Invariants: an extender is asked only about pods that it is interested in (placement.Interested); filters are called
// one after the other, each with the nodes that the one before has left; a filter that fails ends the question unless
// its extender is ignorable, and so does an extender that is asked about victims; a prioritizer that fails gives no
// points.
//
// # Which failures are errors
//
//	                 ignorable              not ignorable
//	filter           skipped, logged        ends the consultation: the attempt fails
//	prioritize       no points, logged      no points, logged
//	preempt          skipped, logged        ends the preemption
//	bind             the binder binds       an error; *RefusedError if the extender says that it did not bind
//
// A caller must not hold a lock or stop its decision loop while it waits: an extender may take its whole timeout (5 s
// by default), and each of them in turn. Shards therefore call this package between two looks at the cluster, from
// goroutines of their own.
//
// Files: set.go has the order of calls, client.go one extender and the wire format, preempt.go the question about
// victims, tls.go the connection.
//
// Start reading at Set.Consult; Client is one extender.
package extender
