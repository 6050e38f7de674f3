// Package conformance compares pkg/placement with kube-scheduler's own plugins: the same random clusters, changes and
// pods go to both, and feasible nodes, scores per plugin, totals, status codes, reasons and the final message must be
// equal, from scratch (Profile.Evaluate) and by the engine that followed the changes (Engine.Evaluate). So must be
// the events that wake a rejected pod: the same changes go to upstream's queueing hints and to Profile.Wakes.
//
// Start reading at TestPlacement, TestHints and TestSampling (the loops), then sides (both, over one cluster), oracle
// (upstream's framework) and upstreamState (its cache and listers, to which changes are applied as its event handlers
// do). The input is that of pkg/placement/placementtest. A failure is minimized before it is printed: the history,
// the decision, and the difference between the answers. A run prints how often each plugin rejected and ranked, and
// fails if any hardly did.
//
// TestPreemption asks both for the victims of random preemptors, node by node, and for the node to choose:
// preempt.Run, configured to preempt as kube-scheduler does, and upstream's DefaultPreemption with its draws pinned.
//
// TestReports and TestReportsOfDevices (reports*_test.go) run whole attempts: upstream's scheduler, and a shard with a
// binder, each beside a fake API server. They compare what is left there: the pod's conditions and nominatedNodeName,
// and events. Exceptions have names, and are counted.
//
// Where ours differs from upstream on purpose, a test shows both answers: exceptions_test.go has differences in the
// meaning of a rule, which are then left out of the comparison; quirks_test.go has upstream's wrong memory of past
// events, which is corrected first; preemption_exceptions_test.go has differences about victims.
//
// TestPlacesOnACalmCluster and its neighbours run several shards (package places) and score where they put pods by
// upstream's plugins: how far is each from the best of all nodes?
//
// TestConfigurations (config*_test.go) does the same for pkg/placement/config: random files go to both loaders, which
// must return the same result, or name the same fields for the same kinds of mistakes.
//
// Package descheduling below this one compares pkg/descheduling with the descheduler of kubernetes-sigs.
//
// It is a module of its own outside the workspace (GOWORK=off): it needs k8s.io/kubernetes, whose dependency versions
// must not determine those of the product. A cold build takes minutes.
//
//	GOWORK=off go test . -args -comparisons=20000
//	GOWORK=off go test . -args -seed=123 -comparisons=1   replays what a failure printed
//	GOWORK=off go test -run Configurations . -args -configurations=20000
package conformance
