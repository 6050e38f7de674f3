// Package descheduling compares pkg/descheduling with sigs.k8s.io/descheduler v0.36: the same random policy files and
// clusters go to both. TestStrategies wants the same pods evicted, TestPolicies the same defaulted arguments for the
// same file, or the same complaints.
//
// Start reading at TestStrategies (the loop), then oracle (upstream's profile with its own limits, over objects in
// its informers, and evictions recorded) and world (the input).
//
// Upstream decides some things by the order of Go's maps and by the order in which the API lists pods. So the test
// checks whether upstream's algorithm allows our evictions, in the order in which we make them (denies in
// orders_test.go, spread_test.go), and checks upstream's own in the same way. Upstream is never asked again until it
// agrees, so no run passes or fails by chance. The table that a run prints counts the cases in which ours is a
// different answer among those that upstream may give, and those in which ours counts a pod once that upstream counts
// twice; both shares are bounded. TestWhatUpstreamMayDo has small cases with all their answers, so that an oracle
// that accepts everything is detected.
//
// It is separate from the comparison of schedulers, because it needs nothing of k8s.io/kubernetes and builds faster
// without.
//
//	GOWORK=off go test ./descheduling -args -cases=20000
//	GOWORK=off go test ./descheduling -args -seed=123 -cases=1   replays what a failure printed
package descheduling
