// Package chaos injects faults into real processes: two queues, two scheduler shards and two binders, each a process,
// on an etcd of three members, a NATS cluster of three servers and an API server, while pods and gangs come and go.
// Processes are killed with SIGKILL and paused with SIGSTOP, for longer than their leases last too; members of the
// stores are killed and paused, the leader of the etcd among them; connections are cut, slowed down, blackholed, and
// blackholed in one direction only, so that a request is carried out and its answer is lost.
//
// The sequence of faults is a plan, a function of a seed, printed as it happens. Timing is the machine's: the same
// seed is the same plan, not the same history. The history is recorded from the first moment to the last. In the end
// everything is healed, every pod has to be bound, `berth check` and `berth audit` must find nothing, and no service
// may have ended by itself.
//
// `make chaos` runs it for ten minutes, `make presubmit` for two.
//
// Start reading at plan.go, then chaos_test.go.
package chaos
