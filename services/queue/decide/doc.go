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
// Invariants, all of them checked by Core.Check:
//
//   - Every unbound pod of the served scheduler names is in exactly one pool (I5).
//   - A pod with a live reservation in the ledger is held and nowhere else: the ledger
//     outranks every message.
//   - A pod is parked only if nothing that its rejectors listen to has happened since the
//     facts and the ledger revision from which its verdict was computed (I6).
//   - Applying an input again changes nothing but lease deadlines (I7).
//
// A Core that does not lead follows the pods, the ledger and the decisions log but offers nothing. A new leader does
// not know the leases of the one before it: pods that were offered are active again.
package decide
