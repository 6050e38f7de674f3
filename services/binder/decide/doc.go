// Package decide makes the binder's decisions: which reservations to bind, which to take back, which documents to
// clean up, which conditions to write and which pods to evict.
//
// Core is a state machine: Step takes one input and the time, changes only Core and returns effects as data. It has
// no clock, context, lock, goroutine or randomness; the same inputs at the same times give the same effects in the
// same order.
//
// Core itself only orders the steps. Its parts have the state, each in a package of its own: bind (reservations and
// their fences), podstatus (conditions and nominations), gates (the quota's gates), nodemarks (marks on nodes for
// cluster autoscalers), evict (plans, victims and the descheduler's orders) and document (the ledger's documents and
// their cleaning). What they share is in basis: the facts, the ledger view, the limits, the present time and the
// operations under way. Inputs and effects are in effect.
//
// Start reading at Core.Step, then bind.Reservations.
//
// Invariants:
//
//   - A bind is sent only for an entry that the binder's own ledger view shows Committed
//     with that token, with the pod's UID and the entry's resourceVersion as preconditions.
//   - A bind that is delegated to a plugin (ledger.Entry.Delegated) is left to it until its shard
//     reports that it declined or failed, or until its time has expired.
//   - After a lost resourceVersion the pod is read first and the node's document second,
//     and only then the bind is sent again.
//   - An entry leaves a document for one of two reasons: the facts show its pod bound or
//     deleted (the document's high-water is raised to that fact), or a fence was completed:
//     mark in the ledger, real change of the pod, check of its nodeName, release.
//   - Every effect is guarded (mod revision, UID, resourceVersion), so that a second binder
//     that acts on the same pod during a change of membership does no harm.
//   - Deadlines mean "unchanged for so long since this binder first saw it", on the caller's
//     monotonic clock.
//   - Every effect with an OpID has exactly one answer, and every piece of work has at most
//     one effect in flight.
//
// # The order of a step
//
// Inputs change what is known first, and are then followed by the work that depends on it:
//
//   - FactsChanged replaces the facts, reports pods that kubelets have rejected, advances everything that waits, and
//     then the plans and nominations of the pods that changed.
//   - LedgerChanged folds the batch into the ledger view, adopts all of its documents, brings plans and removals in
//     line and advances them, and then advances the reservations that have changed.
//   - An answer goes to the machine that waits for it, which may emit its next effect in the same step.
//   - Tick advances what has become due, forgets what can no longer matter, and sweeps.
//
// The way of one pod through the binder: its reservation comes with LedgerChanged, its hint with DecisionSeen; bind
// emits Bind, whose answer publishes DecisionBound; the bound pod comes back with FactsChanged; document hands the
// entry over.
package decide
