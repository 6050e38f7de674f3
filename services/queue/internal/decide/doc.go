// Package decide is the queue's decision core: which pod is offered to which shard, and when. It is a pure state
// machine: inputs and the time come in, effects go out as data.
//
// Start reading at Core.Step, then Pool (where a pod can be), lease.go (offers), verdict.go (their answers), hold.go
// (the reservations in the ledger), wake.go (what wakes a parked pod) and balance.go (when partitions move).
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
