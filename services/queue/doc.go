// Package queue is the service that watches Kubernetes on behalf of all other services and offers pods to scheduler
// shards.
//
// It has two jobs. As the writer of facts, it turns the API server's lists and watches into the log of facts (a fact
// is one version of one object), fenced so that only one replica writes. As the queue, it tracks every pod that waits
// to be placed and offers it, in order and under a lease, to the shard that holds its partition. Any number of
// replicas run. One leads; the others follow the log and the ledger and take over with warm state.
//
// # Packages
//
//   - intake turns the Kubernetes API, the log, the ledger's watch and the shards' requests into typed input.
//   - decide is the pure core: inputs and the time come in, effects come out.
//   - commit carries the effects out, and appends facts to the log.
//   - leader competes for the leadership and does the leader's work: rounds of facts, and snapshots.
//   - generation checks, before a round, that the ledger still holds what members have relied upon.
//   - applied hands the newest applied state from the deciding goroutine to the leader's goroutines.
//   - watchdog searches the ledger, the pods and the decisions for anomalies.
//
// Start reading at Queue.Run, then loop.go (the one goroutine that decides) and package leader (what a leader does).
//
// # Goroutines
//
// Queue.Run starts all goroutines under one errgroup: the first that fails ends the replica. The loop owns the core,
// the view of the ledger and the watchdog, and takes one input at a time from channels: steps of the facts, batches of
// the ledger's watch, batches of the decisions log, requests of shards, and the inputs that begin and end a term. All
// channels are bounded, and a full one blocks its sender, so a slow step is felt as backpressure and not as loss; only
// requests for work are dropped, because shards repeat them with each heartbeat.
// Other goroutines do not touch the core: they send it an input, or a query that runs between two steps (Queue.query).
// The effects of a step are carried out before the next input is taken. None of them blocks: the writers to the log
// and to the ledger have queues and goroutines of their own.
//
// # A pod's way
//
// A pod is created. The leader's watch delivers it, and commit.Writer appends it as a fact. Every replica's feed, the
// leader's included, reads the fact back from the log, and only then does the core learn of the pod: the leader has no
// shortcut, so that what it knows is always a prefix of the log. The core puts the pod into a pool, offers it to the
// shard that has requested work, and learns from the decisions log how the attempt ended and from the ledger whether a
// reservation exists. When a fact shows the pod bound, the core forgets it.
//
// # Rounds
//
// Each leadership consists of rounds. A round reads the log to its end, opens a new fact epoch, lists everything,
// publishes the differences, closes the epoch and then follows the watches. A round repairs whatever happened to the
// log before it, so first start, takeover, a lost tail and a foreign writer share one code path. Opening an epoch at
// every takeover costs a pause of one list, in which the new leader could not offer work anyway. In return, a reader
// that holds a tail which the log has lost is always detected.
//
// # Invariants
//
// A deposed replica appends nothing (the stream's last sequence fences it). A fact's progress never claims a fact that
// does not precede it in the log. Every unbound pod is in exactly one pool. An offer grants nothing: the ledger decides
// who places a pod, so a lost, late or repeated offer costs time and nothing else.
package queue
