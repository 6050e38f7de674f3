// Package scale plays a control plane of many shards in virtual time, to say what it would reach and
// what would stop it where nobody has that many machines: how many pods a second, how many transactions
// are refused, how old the shards' pictures are, which process is busy all the time.
//
// It is a discrete-event simulation. Processes (queue, shards, binders, etcd, NATS) are servers that
// jobs wait for; what a job takes is data, a file of costs that says of each number what measured it.
// What jobs do is real where it decides about conflicts: transactions are compared by the in-memory
// ledger (pkg/ledger/mem), and decisions are made either by the scheduler's own core on its own picture
// of the cluster (services/scheduler/shardcore), or, where so many pictures would not fit into memory, by
// a twin of it that knows one template of pods and the core's way with batches, lost races and
// alternatives. The two are compared by a test and by every run of the command.
//
// Everything is drawn from one seed: the same scenario gives the same result to the last digit.
//
// Left out: faults, preemption, rules between pods, leases and members that come and go, the binders'
// sweeps, records of evidence beyond what they cost a shard, and turns at nodes in the twin.
//
// Start reading at Run, then world (who tells whom), shard and its two kinds of decider.
package scale
