// Package placement decides where a pod may run: which nodes can take it, which of them is best, why the others
// cannot take it, and which changes would make it worth trying again. The scheduler, the descheduler's what-if
// checks, replay and simulation share it.
//
// Start reading at rule.Plugin (one rule), then Profile.Evaluate (all rules over all nodes) and Diagnosis (the
// explanation for people; Profile.Explain gives more). Profile.Wakes decides when a rejected pod is tried again.
//
// # The way of a pod
//
// A pod requests 2 CPUs and prefers zone a. NewProfile has compiled the configuration into a Profile once.
//
//  1. Profile.Evaluate compiles every rule for the pod (Evaluation.Compile). NodeResourcesFit becomes a filter and a
//     scorer, NodeAffinity a scorer; NodePorts does not apply.
//  2. Rules that count pods on all nodes do so once (Evaluation.SurveyFilters).
//  3. Each node gets a verdict: that it passes, or the first rule that rejects it (Evaluation.Verdict).
//  4. If nodes pass, the scorers give each of them points, which are normalized to 0..100 per rule, weighted and
//     summed up; the best TopK nodes are ranked, ties broken by a hash (Evaluation.score, Evaluation.rank).
//  5. If no node passes, the nodes are grouped by their reasons into a Diagnosis: "0/5 nodes are available: 5
//     Insufficient cpu." The pod waits for changes that NodeResourcesFit listens to, and Profile.Wakes reports
//     whether a certain change (a pod that was deleted, a node that was added) could help this pod.
//  6. preempt.Run then looks for victims.
//
// # Packages
//
// The packages below it, from the bottom up:
//
//   - rule holds the types that all rules are built from: Plugin, Filter, Scorer, the changes that they listen to.
//   - internal/nodes, internal/fit, internal/spread, internal/podaffinity, volumes and devices are the rules, and
//     names are their names.
//   - placement itself is the rules of a profile together: Profile, Evaluate and its Result, Diagnosis, Explain.
//   - preempt determines which pods would have to be evicted for a pod that fits nowhere.
//   - engine gives the answers of Evaluate and preempt.Run from state that it keeps up to date.
//   - config reads kube-scheduler's configuration file into profiles.
//   - gates lists the feature gates of Kubernetes, and how each is treated.
//
// So two implementations give the same answer:
//
//   - Profile.Evaluate starts from scratch. It is a function of its arguments and keeps no state between calls;
//     rules about other pods count them on every call, once per constraint or term. It is for questions that are
//     asked once, and it defines what the right answer is.
//   - engine.Engine keeps its results and evaluates only what changed since. It is for the shards.
//     TestEngineAgreesWithTwin and TestEnginePreemptsAsTwin compare it with the first after every event of random
//     histories.
//
// A rule is written once, as a Plugin; the engine adds only the sums and the positions of values in its columns.
// Evaluation, WhatIf and what belongs to them are for packages preempt and engine, which build on the same steps.
//
// The results of HTTP extenders for nodes are part of the input (Input.Opinions). Extenders are asked about
// victims between two searches (preempt.Candidates, preempt.Among). Package extender calls them.
//
// Nothing here uses a clock, randomness or I/O, except that config reads a file. Nodes and pods are only read,
// and so are namespaces, services and controllers, which are passed as rule.Objects. A Profile is immutable and
// may be shared; everything else belongs to one call.
//
// # Differences from kube-scheduler
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
//     ...") is preempt.Result.Message, not part of Diagnosis.
//   - Rules that are configured but not evaluated by this version never let a pod pass by mistake: a pod with a hard
//     constraint of such a rule is rejected on every node, with a reason that names the rule (see unsupported.go).
//   - Among volumes of the same size for a claim, the first by name is used. A pod on a node whose ephemeral volume
//     is bound to another owner's claim does not fail the attempt (volumes/limits.go).
//   - InterPodAffinity takes a namespace selector to mean the namespaces that match it, also where upstream loses
//     track of that, and its hints wake pods that upstream's hints miss (see podaffinity/hint.go).
//   - The answer depends only on the state of the cluster, not on its history. Upstream's cache considers a host
//     port free when the first of two pods that use it is gone, keeps the first size it saw of an image, and counts
//     the nodes with an image as of the last change of a node.
//   - A node that a pod was nominated to, and that the pod's own rules exclude, is no special case in the diagnosis.
//
// test/conformance has a test for each of the last three that shows both answers.
package placement
