// Package fit holds the rules about the resources of a node: NodeResourcesFit, which rejects nodes with too
// little and scores by a strategy, and NodeResourcesBalancedAllocation. Resources that are backed by devices are
// measured by those (package devices) on nodes that do not list them. Source: plugins/noderesources.
//
// A request is counted in three ways, as upstream does:
//
//   - Filter compares the pod's full request, pod-level resources included, with what is free (NodeInfo.Requested).
//   - Scorer counts containers without a request with defaults (100 milli-CPU, 200 MiB), so that nodes with many
//     such pods do not look empty (NodeInfo.NonZeroRequested).
//   - BalanceScorer counts the plain requests, as the status of a resized pod shows them.
//
// Example: a node of 4 CPUs, of which 3 are requested, and a pod that requests 500m. Filter: 500m <= 1000m,
// passes. LeastAllocated: (4000 - 3500) * 100 / 4000 = 12 points for cpu; the mean with memory is the score.
//
// Start reading at Filter, then Scorer. The engine computes both from columns.
package fit
