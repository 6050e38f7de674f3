// Package placementbench holds the workloads on which the placement engine is measured: a cluster, the pods that
// exist in it, the pods that arrive, and the changes of its nodes in the course of it. The benchmarks of
// pkg/placement, the comparison with kube-scheduler and the measurement of a shard's memory share it, so that
// their numbers are comparable.
//
// Start reading at All (the list), then Workload and apps.go (what distinguishes the workloads). Site is an
// engine with what a shard keeps around it; Churn makes the changes of nodes; Crowd is the workload for
// preemption.
//
// A run: Workload.Cluster makes the cluster, NewSite adds it to an engine, and then Workload.Pending makes one
// pod after the other, each of which Site.Decide places. Every EventEvery decisions, Churn.Next changes a node,
// and Site.Change applies it.
//
// Invariants:
//
//   - Everything is a function of the workload and of an index: the same pod results on every machine and in every
//     order of calls.
//   - Objects are as the API server returns them to a scheduler (except managedFields, which both sides drop on
//     arrival): owner references, template hash, service account volume, default tolerations, defaulted container
//     fields. No two of them share memory, like decoded objects.
//   - Changing a constant here changes all published numbers: compare new measurements with new ones only.
package placementbench
