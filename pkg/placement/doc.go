// Package placement decides WHERE A POD MAY GO: which nodes can take it, which of them is
// best, why the others cannot, and what would have to change for that to be asked again.
// The scheduler, the descheduler's what-if, replay and simulation share it.
//
// Start reading at Plugin (one rule), then Profile.Evaluate (all of them over all nodes)
// and Diagnosis (the answer for people); Change and Profile.Wakes are the way back from
// "no" to "ask again".
//
// Everything here is a function of its arguments: no clock, no randomness, no I/O, no
// state that outlives a call. Nodes and pods are read only; so are namespaces, services
// and controllers, which come as Objects. Rules about other pods (spread*.go,
// podaffinity*.go) count them anew in every decision, once per constraint or term.
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
//   - Preemption does not exist here, and neither does the sentence upstream adds after it
//     ("preemption: 0/N nodes are available: ...").
//   - Rules that are configured but not evaluated by this version never let a pod pass by
//     mistake: a pod that carries a hard constraint of such a rule is rejected on every
//     node with a reason that names the rule (see unsupported.go).
//   - Hard rules that reach beyond one node are refused in the same way unless the profile
//     says that one shard alone decides: see CrossNodeRules. Their soft counterparts
//     (preferred pod affinity, ScheduleAnyway spread, spreading by default) always score.
//   - InterPodAffinity takes a namespace selector to mean the namespaces that match it,
//     also where upstream loses track of that; and its hints wake pods that upstream's
//     forget (see podAffinity.Hint). test/conformance names each such exception.
package placement
