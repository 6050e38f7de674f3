// Package fittrial is the dry run of preemption for the usual case: a pod that only lacks resources on a node, where
// no disruption budget and no protected pod is involved. It searches for victims with sums of plain numbers.
//
// Column keeps the pods of every node by importance, and Trial tries one node: it removes all less important pods
// and puts them back one by one, the most important first, for as long as the pod still fits. Package engine calls
// it for every node that changed since the last preemption of a class, and falls back to preempt.Search.OnNode,
// which evaluates rules on a copy of the node, for all other cases. Both give the same victims.
//
// Start reading at Trial.Take. Nothing here is safe for concurrent use.
package fittrial
