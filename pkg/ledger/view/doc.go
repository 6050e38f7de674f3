// Package view is what one member counts on each node: the pods the API view shows plus
// the reservations of the ledger that the API view does not show yet.
//
// It is the one implementation of the counting rule, used by scheduler shards, the
// descheduler's what-if and the checks; a second one would sooner or later disagree.
//
// The rule (a pod is counted once, by UID):
//
//   - a pod the API view shows bound and not terminal counts on the node it is bound to;
//   - a pod the API view shows neither bound nor deleted counts on the node of its
//     reservation, if the ledger holds one; on every node that has one, should there be
//     several;
//   - a reservation of a pod the API view does not know counts too, until the view's
//     progress has reached the resourceVersion the reservation was decided on: from then
//     on the pod is known to be deleted, and can never be bound;
//   - a reserved pod that the API view shows in an older version than was decided on counts
//     as its reservation describes it, like one that is not known at all;
//   - a pod this member has staged (decided, not yet committed) counts where it is staged,
//     unless it is known to be deleted.
//
// Holds and placeholders count like reservations, and the victims of plans as long as they are
// there: at least as strict as the two questions of the protocol, whether a pod fits now and
// whether it fits however the plans end. View.Ask asks them one by one. In hard spread and in required affinity
// a hold may help a pod instead: it raises the minimum of the domains, and is a pod to follow. Who
// decides by such a rule must not rely on it.
//
// A node is usable only if the member's applied progress has reached the high-water of
// the node's document: the ledger's watch and the log are not ordered with each other, and
// an entry that was handed over may be gone from one before its pod shows in the other.
//
// The same holds for a domain of many nodes, for rules that count pods over one: see
// View.Uncounted.
//
// Start reading at View.recount. A View belongs to one goroutine.
package view
