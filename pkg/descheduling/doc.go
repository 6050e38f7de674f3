// Package descheduling finds pods that should not be where they are: it implements the ten strategies of
// sigs.k8s.io/descheduler v0.36 and its DefaultEvictor as functions of a view of the cluster. It is pure: no clock,
// lock, goroutine, randomness or I/O.
//
// Start reading at Run (the order of profiles and strategies) and Candidate, then at a strategy, such as taints.go.
// View is the view of the cluster, Guard decides which pods must not be evicted, fit.go is upstream's notion of
// another place, Limits counts. Package policy reads the policy file.
//
// A strategy passes each pod it would evict to an Offer and learns the verdict, because the next candidate depends
// on that: a node is drained only until it is no longer too full. So the same strategies serve both a plan that
// searches for a landing place (package plan) and one that follows upstream. A Candidate defines which places its
// strategy would accept, and concern.go what the other strategies object to.
//
// Invariants:
//
//   - Equal inputs give equal candidates in equal order: profiles and strategies as in the policy, nodes by name,
//     pods on a node by priority (low first), then namespace, name and UID, whatever a strategy sorts by in
//     addition. Upstream follows the random order of maps.
//   - No pod is accepted twice in one run.
//   - The cost of the rules of one namespace's pods is bounded (work.go): neither their number nor that of the
//     pods, nodes or domains that they refer to makes a run longer than the namespace's share.
//   - With Input.Upstream the decisions are those of upstream (test/conformance compares them), even where upstream
//     is wrong. The improvements without it are listed in docs/descheduling.md and shown in better_test.go.
package descheduling
