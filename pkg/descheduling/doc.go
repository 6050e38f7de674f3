// Package descheduling finds pods that should not be where they are: the ten strategies of
// sigs.k8s.io/descheduler v0.36 and its DefaultEvictor, as functions of a picture of the
// cluster. It is pure: no clock, lock, goroutine, randomness or I/O.
//
// Start reading at Run (who is asked in which order) and Candidate, then a strategy, such as
// taints.go. View is the picture, Guard says who must not be evicted, fit.go is upstream's
// idea of another place, Limits counts. Package policy reads the policy file.
//
// A strategy hands each pod it would evict to an Offer and learns what became of it, because
// the next candidate depends on that: a node is drained only until it is no longer too full.
// So the same strategies serve a plan that looks for a landing place (package plan) and one
// that takes upstream's word. A Candidate says which places its strategy would be content with,
// and concern.go what the other strategies mind.
//
// Invariants:
//
//   - Equal inputs give equal candidates in equal order: profiles and strategies as in the
//     policy, nodes by name, pods on a node by priority (low first), then namespace, name
//     and UID, whatever a strategy sorts by on top of that. Upstream goes by the order of
//     maps.
//   - No pod is accepted twice in one run.
//   - What the rules of the pods of one namespace cost is bounded (work.go): neither their number nor that of the
//     pods, nodes or domains that they speak of makes a run longer than its share.
//   - With Input.Upstream the decisions are those of upstream (test/conformance compares
//     them), also where it is wrong. What is better without it is listed in
//     docs/descheduling.md and shown in better_test.go.
package descheduling
