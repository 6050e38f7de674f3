// Package scale simulates a control plane of many shards in virtual time, to predict its throughput and its
// bottlenecks at sizes for which no test machines are available: how many pods a second, how many transactions are
// refused, how old the shards' views are, which process is busy all the time.
//
// It is a discrete-event simulation. Processes (queue, shards, binders, etcd, NATS) are servers that jobs wait for;
// the duration of a job is data, from a file of costs that names the measurement behind each number. Everything that
// determines conflicts is real: transactions are compared by the in-memory ledger (pkg/ledger/mem), and decisions are
// made either by the scheduler's own core on its own view of the cluster (services/scheduler/decide), or, where so
// many views would not fit into memory, by a twin of it that knows one template of pods and the core's way with
// batches, lost races and alternatives. The two are compared by a test and by every run of the command.
//
// Everything is drawn from one seed: the same scenario gives the same result to the last digit.
//
// Left out: faults, preemption, rules between pods, leases and members that come and go, the binders' sweeps, records
// of evidence beyond what they cost a shard, and turns at nodes in the twin.
//
// Start reading at Run, then world (the messages between processes), shard and its two kinds of decider.
package scale
