// Package placementbench holds the workloads on which the placement engine is measured: a
// cluster, the pods that stand in it, the pods that arrive, and what happens to its nodes
// meanwhile. The benchmarks of pkg/placement, the comparison with kube-scheduler and the
// measurement of a shard's memory share it, so that their numbers speak of the same thing.
//
// Start reading at All (the list), then Workload and apps.go (what tells one workload from
// another).
//
// Invariants:
//
//   - Everything is a function of the workload and of an index: the same pod comes out on
//     every machine and in every order of calls.
//   - Objects are what the API server gives a scheduler (managedFields excepted, which both
//     sides drop on arrival): owner references, template hash, service account volume,
//     default tolerations, defaulted container fields. No two of them share memory, as no
//     two decoded objects do.
package placementbench
