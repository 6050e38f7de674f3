// Package reserve models how a node's document keeps shards, binders and the API server
// from putting more on the node than fits: reservations, binds, hand-overs and fences
// (pkg/ledger: T1, T5 to T7; services/binder), and the log that the shards know the API
// server by.
//
// There are two nodes with room for two pods each, and three pods that would all go to the
// same. A shard reads the facts from a log, as late as it likes; the log may lose its end
// and gets a new leader, who lists the pods. Binders are not counted: whatever one of them
// could have sent may reach the API server at any time, any number of times, or never.
// Others change pods and delete them. What happens without limit is all of this; what is
// limited (see limits) are placements, fences, changes, deletions and outages.
//
// Three things keep the number of states small, and lose no history that matters:
//
//   - Placements compare the document they were decided on. So the shards' pictures of the
//     ledger need not be kept: one that is behind commits nothing. (The scenarios in which
//     decision and commit are apart do not assume it.)
//   - A bind with an old resourceVersion fails for ever. So of all binds on their way only
//     those that may succeed are kept, one bit for each pod and node.
//   - Pods of one shard are alike, and so are nodes; of resourceVersions only the order
//     matters. See model.key.
//
// No binder looks at the ledger before the first bind it sends for an entry: the full
// protocol holds without. What a binder's own watch is needed for shows in the ablation in
// which hints may be sent before the reservation commits.
//
// Start reading at world (what there is), then model.next (what can happen).
package reserve
