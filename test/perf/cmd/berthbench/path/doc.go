// Package path measures the throughput of Berth itself when the API server costs nothing: facts come from a generator
// and binds go into a sink (package sink); the log on NATS JetStream, the ledger on etcd with a sync for every write,
// and queue, shards and binders in their own processes are real. It reports pods per second, processor time per pod
// and service, and how often shards conflicted; it checks all placements, and compares with a budget if one is given.
//
// With several numbers of shards, or several degrees to which nodes are full before pods arrive, each pair is a
// setting, and runs alternate between settings.
//
// With a null path, each run is followed by a program that reads, writes and posts as much for a pod and decides
// nothing (package null), on fresh stores: the processor times of a pod are compared. With several numbers
// of shards, the slope over them is what each further shard adds.
//
// With several ways to be observed it reports the cost of observation: see observe.go.
//
// Start reading at bench.run.
package path
