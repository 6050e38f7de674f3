// Package explain answers the questions of people: why a pod is where it is, nowhere, or gone,
// and what a node is used for. It decides nothing.
//
// An explanation is put together from three sources. The log has the history: what the facts
// showed of a pod, and every decision about it with what that weighed (Tell). The queue that
// leads knows the pool the pod stands in, what would wake it, and how many pods are before it
// (QueueAnswer). The shard that holds the pod's partition knows the nodes as its next decision
// would see them, and what the ledger promises (ShardAnswer). Running services are asked over the
// bus (Ask, Serve), because they have the state of the cluster at hand: to build it anew takes
// seconds in a large one. What nobody answers is left out, and said so.
//
// Start reading at Story, then Tell.
package explain
