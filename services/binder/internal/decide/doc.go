// Package decide is what the binder decides: which reservations to bind, which to take
// back, which documents to clean, which conditions to write and which pods to evict.
//
// Core is a step machine: Step takes one Input and the time, changes only Core and returns
// Effects as data. It has no clock, context, lock, goroutine or randomness; the same
// inputs at the same times give the same effects in the same order.
//
// Start reading at Core.Step, then reservation (the life of one entry in the binder's
// eyes: bind, refresh, fence), then document (the sweep), condition and eviction.
//
// What holds:
//
//   - A bind is sent only for an entry that the binder's own ledger view shows Committed
//     with that token, with the pod's UID and the entry's resourceVersion as preconditions.
//   - A bind that is a plugin's (ledger.Entry.Delegated) is left to it until its shard says that it leaves or
//     has failed it, or its time is over.
//   - After a lost resourceVersion the pod is read first and the node's document second,
//     and only then the bind is sent again.
//   - An entry leaves a document for one of two reasons: the facts show its pod bound or
//     deleted (the document's high-water is raised to that fact), or a fence ran to its
//     end: mark in the ledger, real change of the pod, look at its nodeName, release.
//   - Every effect is guarded (mod revision, UID, resourceVersion), so that a second binder
//     that acts on the same pod in a change of membership does no harm.
//   - Deadlines are "unchanged for so long since I first saw it", on the caller's
//     monotonic clock.
//   - Every effect with an OpID has exactly one answer, and every piece of work has at most
//     one effect under way.
package decide
