// Package placementbench holds the workloads on which the placement engine is measured: a cluster, the pods that
// exist in it, the pods that arrive, and the changes of its nodes in the course of it. The benchmarks of
// pkg/placement, the comparison with kube-scheduler and the measurement of a shard's memory share it, so that their
// numbers are comparable.
//
// Start reading at All (the list), then Workload and apps.go (what distinguishes the workloads).
//
// Invariants:
//
//   - Everything is a function of the workload and of an index: the same pod results on every machine and in every
//     order of calls.
//   - Objects are as the API server returns them to a scheduler (except managedFields, which both sides drop on
//     arrival): owner references, template hash, service account volume, default tolerations, defaulted container
//     fields. No two of them share memory, like decoded objects.
package placementbench
