// Package decide picks the pods to evict. It is pure: a cycle is a function of a snapshot of
// the cluster, the policy, what has been asked before, and the time.
//
// Start reading at Cycle, then pkg/descheduling (which pods strategies pick, and who is
// protected) and Memory (who is not asked for twice).
//
// Invariants:
//
//   - A pod that the policy protects is never in the outcome; every one that a strategy
//     picked and a protection kept is counted under its reason.
//   - A pod is not asked for while its last eviction is under way, nor within Cooldown of
//     the end of it.
//   - Equal inputs give equal outcomes in equal order: profiles and their strategies as in
//     the file, nodes by name, pods on a node by priority (low first), then namespace and
//     name.
//   - The token of an ask is a function of the pod's UID and the number of the ask. Two
//     replicas that believe they lead ask with the same token, and a binder acts once per
//     token.
//
// Beside what docs/descheduling.md lists: limits count asks, not successes; nodeFit uses the
// scheduler's own rules and gives each place away once, so that many pods do not all fit the
// same hole; a missing PriorityClass protects every pod.
package decide
