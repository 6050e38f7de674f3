// Package preempt places pods that fit nowhere: it evicts less important pods for them, or takes over a place that
// is kept or held for another pod. Each change of a plan is a transaction of its own, which the shard's one slot
// (package txn) sends:
//
//	rejected ──► seeking ──► T2: a place is held ──► victims gone ──► T3: placed
//	                │            ▲            └──► T8: given up, the queue offers the pod again
//	                ├──► T4: takes over the hold of a less important pod
//	                └──► T1: takes over a place that is kept for the replacement of a less important pod
//
// # Words
//
// A plan is a place for one pod together with the victims that must leave for it. A hold is the ledger's entry for
// that place: a reservation in state Held, which counts for all shards and which no binder binds. A plan is prepared
// (txns.IsPrepared) if plugins have work left before the bind; it has no victims. A plan has a record
// (ledger.IsRecorded) if its victims do not fit in one transaction. A kept place is a placeholder that the
// descheduler left for the replacement of a pod that it moves (T12).
//
// # Parts
//
//   - Preemption (preempt.go) owns the attempts that fit nowhere: those whose verdict is not certain yet (phase
//     Rejected), and those that wait for a search for victims (Seeking, most important first). It decides which part
//     proposes the next transaction.
//   - nominator searches for victims (victims.go), and holds the place (T2, nominate.go and planbuild.go) or takes a
//     hold over (T4, displace.go).
//   - Places (kept.go) stages a pod in a kept place; the reservation is an ordinary T1 of package reserve.
//   - Holds (hold.go, holds.go) indexes the holds of the pods of this shard's partitions, whichever shard made them,
//     and notes which of them must be inspected. It also sets which pods the engine must not take as victims.
//   - reconciler (holdstate.go) inspects holds (reconcile.go), waits for their victims (waits.go), promotes them (T3,
//     promote.go), completes large plans (form.go), asks extenders about the place (vet.go), gives places up (T8,
//     abort.go), and releases kept places that no pod will need (release.go).
//   - gang.go holds the places of a gang, one member after the other, and together.go inspects them together: no pod is
//     evicted before enough members have a place, and all are promoted at once (docs/decisions/0044).
//   - failures.Memory remembers plans that failed, so that preemption does not evict pods for ever. budgets.Book
//     keeps what the disruption budgets have left.
//   - remake.go repeats a recorded decision for decide.Replica, and proposes nothing.
//
// # Invariants
//
//   - The ledger is the only record of a hold. After a restart, or when a partition changes hands, the next owner finds
//     the hold in the ledger and continues with it; only the data of plugins and the victims of a plan that was still
//     forming are lost, and such holds are given up.
//   - No pod is evicted by this package. A committed T2 claims the victims, and the binders mark and evict them. So
//     no pod is evicted for a plan that is not committed.
//   - A pod whose place is held, whose eviction is claimed, or on which a placement relies is no victim of another plan
//     (Holds.protect). The transaction refuses a second claim on one pod in any case: the protection saves the try.
//   - A hold is inspected when something that it waits for has changed (Holds.due), and at every heartbeat. So a change
//     that Holds overlooks delays a hold by one heartbeat at most.
//   - A promotion decides again from the current state whether the pod fits. Nothing that the nomination found is
//     reused, because minutes may have passed since.
//
// # A pod's way
//
// Pod A (priority 100) fits nowhere. decide calls Reject. Once no pod that the verdict counted is merely staged,
// conclude lines A up. Propose finds no hold to work on and calls seekFor, which finds pod B (priority 0) as the
// victim on node n1. nominate sends T2: A's hold and the claim on B are in n1's document. After the commit
// nomination.Done records the decision "nominated", ends the attempt and adds the hold. B's deletion arrives as a
// fact: Holds.followPod makes the hold due, inspect finds no victim left, and promote sends T3. promotion.Done
// records "placed". Binders do the rest.
//
// All of it runs on the goroutine of the shard's core. Start reading at Preemption.Propose.
package preempt
