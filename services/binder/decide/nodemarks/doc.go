// Package nodemarks decides which nodes have marks for cluster autoscalers (package nodemark), in the modes that write
// or remove them.
//
//   - Withheld: a shard has recorded that a node would take a pod but for Berth (events.Decision.Withheld), and that
//     pod still waits. The record is the only source: which nodes a shard avoids is known to no other member.
//   - Kept: the ledger has had a place on the node for a while that the API server does not show: one that is kept for
//     the replacement of a moved pod, or a reservation whose pod waits for volumes, devices or plugins.
//
// A mark has no owner and no memory but the node itself: each binder reads from the facts which nodes have marks, and
// the one that holds the node's partition removes what is not wanted. So a crash or a restart leaves marks for
// MarkLimits.Fresh, and two binders that write the same node at once do no harm: every write sets both marks, and has
// the node's resourceVersion as a precondition. Writes are limited per binder (MarkLimits.Every), and so are the nodes
// that are withheld at once.
//
// The order of work is fixed: marks are removed before others are written, and nodes follow in the order of their UIDs.
//
// Start reading at Marker.Advance.
package nodemarks
