// Package placement decides WHERE A POD MAY GO: which nodes can take it, which of them is
// best, why the others cannot, and what would have to change for that to be asked again.
// The scheduler, the descheduler's what-if, replay and simulation share it.
//
// Start reading at Plugin (one rule), then Profile.Evaluate (all of them over all nodes)
// and Diagnosis (the answer for people; Profile.Explain has more of it); Change and
// Profile.Wakes are the way back from "no" to "ask again". Profile.Preempt says which pods
// would have to go; read on at attempt.take (one node) and crossNode (several).
//
// There are two ways to the same answer:
//
//   - Profile.Evaluate starts from scratch. It is a function of its arguments, with no state
//     that outlives a call; rules about other pods (spread*.go, podaffinity*.go) count them
//     anew, once per constraint or term. It serves where a question is asked once.
//   - Engine keeps what it has found out and looks only at what changed since. It serves the
//     shards. Read on at class (the pods that no rule can tell apart), columns (what it
//     keeps of nodes), groups (why a decision need not look at every node with every rule)
//     and wide (rules about other pods, by differences).
//
// What HTTP extenders think of nodes is part of a question (Input.Opinions); of victims they are asked between two
// searches (Profile.PreemptCandidates, Profile.PreemptAmong). Who asks them is package extender.
//
// No clock, no randomness, no I/O in either. Nodes and pods are read only; so are
// namespaces, services and controllers, which come as Objects. TestEngineAgreesWithTwin and
// TestEnginePreemptsAsTwin hold the second to the first after every event of random
// histories. A rule is written once, as a Plugin; what the engine has of its own are the sums
// (tally), and the places where numbers stand (usage.go).
//
// Semantics are those of kube-scheduler 1.36: the same feasible set, the same scores per
// plugin and in total, the same reasons and message grammar; test/conformance compares
// them with upstream's own plugins. Known differences:
//
//   - All nodes are looked at unless the profile gives a percentage of nodes to score: 0 is
//     all, not a share that shrinks with the cluster. With one, sampling is upstream's with
//     parallelism 1 (see SampleSize, ZoneOrder and Input.Start); upstream's workers overshoot.
//   - Ties are broken by a hash of seed and node UID, not by the order in which filters
//     happen to finish, so that a decision can be made again.
//   - Preemption respects budgets, tries all nodes, keeps pods that are needed and reaches
//     other nodes, unless PreemptionConfig says otherwise (docs/preemption.md). Its sentence
//     ("preemption: 0/N nodes are available: ...") is Preemption.Message, not in Diagnosis.
//   - Rules that are configured but not evaluated by this version never let a pod pass by
//     mistake: a pod that carries a hard constraint of such a rule is rejected on every
//     node with a reason that names the rule (see unsupported.go).
//   - Of equally small volumes for a claim the first by name is taken, and a pod on a node whose
//     ephemeral volume has somebody else's claim does not fail the attempt (volumelimits.go).
//   - InterPodAffinity takes a namespace selector to mean the namespaces that match it,
//     also where upstream loses track of that; and its hints wake pods that upstream's
//     forget (see podAffinity.Hint).
//   - The answer depends on the cluster, not on how it came to be. Upstream's cache takes a
//     host port for free when the first of two pods with it is gone, keeps the size an image
//     had first, and counts the nodes with an image as they were when a node last changed.
//   - A node that a pod was nominated to, and that the pod's own rules exclude, is no special
//     case in the diagnosis.
//
// test/conformance has each of the last three as a test that shows both answers.
package placement
