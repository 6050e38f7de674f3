// Command benchpath measures what Berth itself reaches when the API server costs nothing: facts
// come from a generator and binds go into a sink (package sink); the log on NATS JetStream, the
// ledger on etcd with a sync for every write, and queue, shards and binders in their own processes are
// real. It reports pods per second and processor time per pod and service, checks all placements, and
// compares with a budget if one is given.
//
// Start reading at bench.run.
package main
