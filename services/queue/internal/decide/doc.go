// Package decide is the queue's decision core: which pod is offered to which shard, and
// when. It is a pure step machine: inputs and the time come in, effects go out as data.
//
// Start reading at Core.Step, then Pool (where a pod can be), lease.go (offers), verdict.go
// (what comes of them), hold.go (what the ledger says), wake.go (what wakes a parked pod)
// and balance.go (when partitions move).
//
// Invariants, all of them checked by Core.Check:
//
//   - Every unbound pod of the served scheduler names is in exactly one pool (I5).
//   - A pod with a live reservation in the ledger is held and nowhere else: the ledger
//     outranks every message.
//   - A pod is parked only if nothing that its rejectors care about has happened since the
//     facts and the ledger revision its verdict was computed from (I6).
//   - Applying an input again changes nothing but lease deadlines (I7).
//
// A Core that does not lead follows the pods and the ledger but gives nothing out and
// believes no verdict: when it takes over, every free pod is active.
package decide
