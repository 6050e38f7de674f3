// Package evict carries out the binder's part of evictions: the plans that make room for a pod or move one (plan),
// the claims on single victims (removal), and the orders of the descheduler (eviction).
//
// A plan marks its victims in the ledger; an order claims its pod there. Each claim is one removal, which sends the
// eviction and reports its outcome. All of it can be continued by another binder from the ledger alone.
//
// Start reading at Evictor, then plan, removal and eviction.
//
// # State
//
// Evictor has the machines in three maps. plans and removals follow the ledger view: Evictor.Follow adds one for each
// plan with an owner and each claim on a victim, and drops it when the ledger does. evictions come from the decision
// log and are kept until their outcome can no longer matter. A pod has at most one removal, because the ledger allows
// one claim per pod (I9). A machine has at most one effect in flight, and advances when its document, its pod or the
// time changes; advance may be called at any time and does nothing if nothing is due.
//
// # The way of a preemption
//
//  1. A shard's T2 puts a hold for the preemptor and claims on its victims. Follow adds a plan and its removals.
//  2. The binder that holds the preemptor's partition acts. Each victim that a budget covers is read and dry-run.
//  3. When all victims are ready, plan.advance marks them Evicting in one transaction (basis.BatchBytes permitting).
//  4. Each removal sends its eviction: if the profile ignores budgets a deletion, preceded by the condition
//     DisruptionTarget. Only the member whose id is in the claim sends, and only if the ledger has shown the claim
//     within Limits.EvictWithin.
//  5. The outcome goes to the log (DecisionEvicted or DecisionEvictRefused), and an event to the victim.
//  6. When the facts show that the victims have left, the shard promotes its hold (T3). The claims leave the ledger
//     with the next transaction on their documents.
//
// An order of the descheduler claims its pod and marks it in one transaction (T10, eviction.claim); the pod is then
// read and dry-run, if a budget covers it, and evicted as in step 4. A move keeps a place (T12), and its eviction is
// ordered like a single one, but belongs to a plan (move.go).
//
// A pod whose eviction can only be requested, because another controller answers with a migration or the like, has no
// dry run, is sent its eviction once, and is waited for (request).
//
// # What is certain
//
//   - Nothing is sent before the mark is in the ledger, so that an abort (T8) knows which claims it may drop.
//   - A claim is given back only if every eviction that was sent since the mark has certainly failed. Only the sender
//     of all of them knows that; an eviction without an answer counts as in flight for Limits.EvictionHang.
//   - A disruption budget is never spent by a call that is likely to fail: the pod is read and dry-run first.
//   - The outcome of an order is published once. A victim that cannot be evicted for a plan is reported again after
//     every Limits.EvictionTries refusals, as long as the plan exists.
package evict
