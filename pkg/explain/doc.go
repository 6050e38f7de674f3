// Package explain answers operators' questions: why a pod is where it is, is unplaced, or is gone, and what a node
// is used for. It decides nothing.
//
// An explanation is put together from three sources. The log holds the history: the pod as the facts showed it, and
// every decision about it with its evidence (Tell). The leading queue knows the pod's pool, the events that would
// wake it, and how many pods are ahead of it (QueueAnswer). The shard that holds the pod's partition knows the
// nodes as its next decision would see them, and the ledger's entries (ShardAnswer). Running services are asked
// over the bus (Ask, Serve), because they already hold the state of the cluster: rebuilding it takes seconds in a
// large cluster. A part that no service answers is left out, and the explanation says so.
//
// Start reading at Story, then Tell.
package explain
