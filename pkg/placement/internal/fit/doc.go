// Package fit holds the rules about the resources of a node: NodeResourcesFit, which rejects nodes with too little
// and scores by a strategy, and NodeResourcesBalancedAllocation. Resources that are backed by devices are measured
// by those (package devices) on nodes that do not list them. Source: plugins/noderesources.
//
// Start reading at Filter, then Scorer. The engine computes both from columns.
package fit
