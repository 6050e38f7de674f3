// Package descheduling compares pkg/descheduling with sigs.k8s.io/descheduler v0.36: the same
// random policy files and clusters go to both. TestStrategies wants the same pods evicted,
// TestPolicies the same defaulted arguments for the same file, or the same complaints.
//
// Start reading at TestStrategies (the loop), then oracle (upstream's profile with its own
// limits, over objects in its informers, and evictions recorded) and world (the input).
//
// Upstream decides some things by the order of Go's maps and by sorting with a function that
// is no order. So where the sets differ, upstream runs again, and ours must be one of its
// answers. The table that a run prints counts those cases. Named exceptions are in
// exceptions_test.go.
//
// It is a package of its own beside the comparison of schedulers, because it needs nothing of
// k8s.io/kubernetes and builds faster without.
//
//	GOWORK=off go test ./descheduling -args -cases=20000
//	GOWORK=off go test ./descheduling -args -seed=123 -cases=1   replays what a failure printed
package descheduling
