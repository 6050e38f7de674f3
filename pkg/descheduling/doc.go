// Package descheduling finds pods that should not be where they are: it implements the ten strategies of
// sigs.k8s.io/descheduler v0.36 and its DefaultEvictor as functions of a view of the cluster. It is pure: no clock,
// lock, goroutine, randomness or I/O.
//
// Start reading at Run (the order of profiles and strategies), then at pass.propose in pass.go (what happens to a
// picked pod), then at a strategy, such as taints.go, the shortest, or spread.go, the longest.
//
// The files form layers; each uses only those below it:
//
//   - limits.go and run.go: the entry points Collect and Run.
//   - The strategies: taints.go, nodeaffinity.go, antiaffinity.go with podindex.go, spread.go with spreadrule.go,
//     duplicates.go, utilization.go with drain.go, levels.go and meter.go, and status.go for the three that read
//     only a pod's status.
//   - pass.go: one strategy of one profile in progress; every candidate passes through it. report.go words its
//     result.
//   - guard.go: the protections of DefaultEvictor. fit.go: upstream's notion of another place.
//   - view.go: the cluster with the caches of one run; traits.go, preferred.go and budget.go hold what is cached.
//   - pod.go and order.go: pods, nodes, and their orders. input.go and refusal.go: the package's vocabulary.
//
// The way of one candidate: a strategy selects a pod on one of the selected nodes and calls propose. The guard of
// the profile refuses it, or the caller's Offer decides. If it is accepted, the pod is marked, the concerns of all
// strategies learn of the move, and the strategy gets the landing node so that it can update its own counts. If it
// is refused, the refusal is counted, and the verdict decides whether the strategy continues with the node, with
// the next node, or not at all.
//
// A strategy passes each pod it would evict to an Offer and receives the verdict, because the next candidate
// depends on that: a node is drained only until it is no longer too full. So the same strategies serve both a plan
// that searches for a landing place (package plan) and one that follows upstream (Collect). A Candidate defines
// which places its strategy would accept, and concerns what the other strategies object to.
//
// Package plan turns candidates into moves, package policy reads the policy file, and package deschedulingtest
// builds clusters for tests and benchmarks.
//
// Invariants:
//
//   - Equal inputs give equal candidates in equal order: profiles and strategies as in the policy, nodes by name,
//     pods on a node by priority (low first), then namespace, name and UID, whatever a strategy sorts by in
//     addition. Upstream follows the random order of maps.
//   - No pod is accepted twice in one run.
//   - The cost of the rules of one namespace's pods is bounded (budget.go): neither their number nor that of the
//     pods, nodes or domains that they refer to makes a run longer than the namespace's share.
//   - Nothing that a run can reach through a View is changed, except the View's own Pods, Nodes and caches.
//   - With Input.Upstream the decisions are those of upstream (test/conformance compares them), even where upstream
//     is wrong. The improvements without it are listed in docs/descheduling.md and shown in better_test.go.
package descheduling
