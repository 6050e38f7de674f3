// Package placement decides where a pod may run: which nodes can take it, which of them is best, why the others
// cannot take it, and which changes would make it worth trying again. The scheduler, the descheduler's what-if
// checks, replay and simulation share it.
//
// Start reading at Plugin (one rule), then Profile.Evaluate (all rules over all nodes) and Diagnosis (the
// explanation for people; Profile.Explain gives more). Change and Profile.Wakes decide when a rejected pod is tried
// again. Profile.Preempt determines which pods would have to be evicted; continue at attempt.take (one node) and
// crossNode (several).
//
// Two implementations give the same answer:
//
//   - Profile.Evaluate starts from scratch. It is a function of its arguments and keeps no state between calls;
//     rules about other pods (spread*.go, podaffinity*.go) count them on every call, once per constraint or term.
//     It is for questions that are asked once.
//   - Engine keeps its results and evaluates only what changed since. It is for the shards. Continue at class (the
//     pods that no rule can distinguish), columns (what the engine keeps about nodes), groups (why a decision need
//     not evaluate every node with every rule) and wide (rules about other pods, updated by differences).
//
// The results of HTTP extenders for nodes are part of the input (Input.Opinions). Extenders are asked about victims
// between two searches (Profile.PreemptCandidates, Profile.PreemptAmong). Package extender calls them.
//
// Neither implementation uses a clock, randomness or I/O. Nodes and pods are only read, and so are namespaces,
// services and controllers, which are passed as Objects. TestEngineAgreesWithTwin and TestEnginePreemptsAsTwin
// compare the second with the first after every event of random histories. A rule is written once, as a Plugin; the
// engine adds only the sums (tally) and the positions of values in its columns (usage.go).
//
// The semantics are those of kube-scheduler 1.36: the same feasible set, the same scores per plugin and in total,
// the same reasons and message grammar; test/conformance compares them with upstream's own plugins. Known
// differences:
//
//   - All nodes are evaluated unless the profile sets a percentage of nodes to score: 0 means all, not a share that
//     shrinks with the size of the cluster. With a percentage, sampling is upstream's with parallelism 1 (see
//     SampleSize, ZoneOrder and Input.Start); upstream's workers overshoot.
//   - Ties are broken by a hash of seed and node UID, not by the order in which filters happen to finish, so that a
//     decision can be reproduced.
//   - Preemption respects budgets, tries all nodes, protects pods that are needed and reaches other nodes, unless
//     PreemptionConfig says otherwise (docs/preemption.md). Its sentence ("preemption: 0/N nodes are available:
//     ...") is Preemption.Message, not part of Diagnosis.
//   - Rules that are configured but not evaluated by this version never let a pod pass by mistake: a pod with a
//     hard constraint of such a rule is rejected on every node, with a reason that names the rule (see
//     unsupported.go).
//   - Among volumes of the same size for a claim, the first by name is used. A pod on a node whose ephemeral volume
//     is bound to another owner's claim does not fail the attempt (volumelimits.go).
//   - InterPodAffinity takes a namespace selector to mean the namespaces that match it, also where upstream loses
//     track of that, and its hints wake pods that upstream's hints miss (see podAffinity.Hint).
//   - The answer depends only on the state of the cluster, not on its history. Upstream's cache considers a host
//     port free when the first of two pods that use it is gone, keeps the first size it saw of an image, and counts
//     the nodes with an image as of the last change of a node.
//   - A node that a pod was nominated to, and that the pod's own rules exclude, is no special case in the
//     diagnosis.
//
// test/conformance has a test for each of the last three that shows both answers.
package placement
