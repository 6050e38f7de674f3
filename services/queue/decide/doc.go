// Package decide is the queue's decision core: which pod is offered to which shard, and when. It is a pure state
// machine: inputs and the time come in, effects go out as data.
//
// Start reading at Core.Step and apply.go (what each input does, in which order). Each part of the state has a type
// that alone changes it:
//
//   - backlog: the pods that wait to be placed. It decides what a fact, an answer or an occurrence means for them and
//     moves them between the pools of package waiting.
//   - holds: the reservations that the ledger shows.
//   - leases: the shards, and which pods are leased to them; dispatch.go makes the offers.
//   - decisions: how far the log of decisions has been read; unseenPods: answers about pods that the facts have not
//     shown.
//   - package quota: the budgets of namespaces; package balance: when partitions move; package memory: what a replica
//     writes down when it stops.
//
// # The order of a step
//
// The input is applied first. Everything else follows from the state and the time, in the order of Core.Step: held
// pods whose reservation is certainly gone are freed, leases and backoffs that have ended are ended, lanes give their
// permits to the next pods, gates are removed, and only then are pods offered, so that an offer sees everything that
// the step has freed. Last, the load is checked and the next tick is requested. An input that changes nothing
// therefore still does what has become due.
//
// # Three sources
//
// The facts, the ledger and the decisions log are read independently, and each may be ahead of the others. The core
// never waits for one inside a step; it records what it must wait for:
//
//   - An answer about a pod that the facts have not shown is kept in unseenPods until they show the pod.
//   - A reservation that a message reports and the ledger has not shown makes the pod held until the ledger's view has
//     reached its revision.
//   - A reservation that vanishes makes the pod settle until the facts have reached the high-water of its document: the
//     bind may be in facts that are still to come (holds.go).
//   - A verdict names the facts and the ledger revision from which it was computed. What happened since then is in
//     the journal of package waiting, and wakes the pod if it could help.
//
// Where sources contradict each other, the ledger outranks the decisions log, and the facts outrank both: a bound pod
// is forgotten whatever else is known of it.
//
// # A pod's way
//
// FactsApplied brings a pod that is unbound and of a served scheduler name: backlog.podChanged calls podAdded, which
// makes an Entry, and Pools.Resume puts it into a pool, say active. A shard's WorkRequested opens its window; dispatch
// leases the pod to it and emits SendOffers. Decided brings the answer "unplaceable": the lease ends, and Pools.Park
// parks the pod under the rules that rejected it. A later fact about a node becomes an Occurrence; backlog.occurred
// finds the parked pods whose rules listen to it and requeues them, through their backoff. The next answer is "placed":
// the pod is held. LedgerMoved shows the reservation, FactsApplied the bind, and podChanged forgets the pod and emits
// PodBound.
//
// # Invariants
//
// All of them are checked by Core.Check:
//
//   - Every unbound pod of the served scheduler names is in exactly one pool (I5).
//   - A pod with a live reservation in the ledger is held and nowhere else: the ledger
//     outranks every message.
//   - A pod is parked only if nothing that its rejectors listen to has happened since the
//     facts and the ledger revision from which its verdict was computed (I6).
//   - Applying an input again changes nothing but lease deadlines (I7).
//
// # Leaders and standbys
//
// A Core that does not lead follows the pods, the ledger and the decisions log but offers nothing. A new leader does
// not know the leases of the one before it: pods that were offered are active again. It offers nothing before it has
// read the decisions that were in the log when it started, because an old answer would pass for the answer to a new
// offer.
//
// A Core is for one goroutine and keeps no time of its own: the same inputs at the same times give the same effects,
// which tests and the simulation rely on.
package decide
