// Package reserve models how a node's document keeps shards, binders and the API server from putting more on the node
// than fits: reservations, binds, hand-overs and fences (pkg/ledger: T1, T5 to T7; services/binder), and the log
// through which the shards know the API server.
//
// There are two nodes with capacity for two pods each, and three pods that could all be placed on the same node. A
// shard reads the facts from a log, arbitrarily late; the log may lose its end and gets a new leader, who lists the
// pods. Binders are not modeled one by one: any call that one of them could have sent may reach the API server at any
// time, any number of times, or never. Other clients change pods and delete them. Placements, fences, changes,
// deletions and outages are limited (see limits); everything else happens without limit.
//
// Three things keep the number of states small, and lose no history that matters:
//
//   - Placements compare the document they were decided on. So the shards' views of the ledger need not be kept: a
//     shard that is behind commits nothing. (The scenarios in which decision and commit are apart do not assume it.)
//   - A bind with an old resourceVersion fails for ever. So of all binds in flight only those that may succeed are
//     kept, one bit for each pod and node.
//   - Pods of one shard are alike, and so are nodes; of resourceVersions only the order matters. See model.key.
//
// No binder looks at the ledger before the first bind it sends for an entry: the full protocol is correct without
// that. The ablation in which hints may be sent before the reservation commits shows why a binder needs its own
// watch.
//
// Start reading at world (the state), then model.next (the possible steps).
package reserve
