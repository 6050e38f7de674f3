// Package view determines what one member counts on each node: the pods that the API view shows, plus the
// reservations of the ledger that the API view does not show yet.
//
// It is the only implementation of the counting rule, used by scheduler shards, the descheduler's what-if and the
// checks; a second implementation would sooner or later differ.
//
// # The counting rule
//
// A pod is counted once, by UID:
//
//   - A pod that the API view shows bound and not terminal counts on the node it is bound to.
//   - A pod that the API view shows neither bound nor deleted counts on the node of its reservation, if the ledger
//     has one; if several nodes have one, on each of them.
//   - A reservation of a pod that the API view does not know counts too, until the view's progress has reached the
//     resourceVersion that the reservation was decided on. From then on the pod is known to be deleted, and can
//     never be bound.
//   - A reserved pod that the API view shows in an older version than the decision used counts as its reservation
//     describes it, like a pod that is not known at all.
//   - A pod that this member has staged (decided, not yet committed) counts where it is staged, unless it is known
//     to be deleted.
//
// Holds and placeholders count like reservations, and the victims of plans count as long as they exist. This is at
// least as strict as the two questions of the protocol, whether a pod fits now and whether it fits however the
// plans end; View.Ask answers them one by one. In hard spread and in required affinity, however, a hold may help a
// pod: it raises the minimum of the domains, and is a pod to follow. A decision by such a rule must not rely on a
// hold.
//
// A pod that is only nominated to a node by its status, with no place held or reserved for it, counts nowhere:
// whether it holds room depends on the pod that is placed, see View.Nominated.
//
// For example, a shard places pod p, of resourceVersion 50, on node n. There p counts on n first as staged, then as
// reserved, then as bound. When the entry leaves n's document (T5), the document's high-water is at least the version
// of the bind. A shard whose facts end at 49 counts p nowhere from then on, but does not use n either.
//
// # When a node may be used
//
// A node is usable only if the member's applied progress has reached the high-water of the node's document. The
// ledger's watch and the log are not ordered with each other, so an entry that was handed over may be gone from the
// ledger before its pod shows in the log. View.Settle checks this for the nodes that have changed.
//
// The same holds for a domain of many nodes, for rules that count pods over one: see View.Uncounted.
//
// # Parts
//
// nodeTable holds the nodes and reports their changes to the Follower. tally records where each pod counts, and
// changes the nodeTable. keptPlaces indexes the placeholders. Transactions read TxnFacts and Budgets. View decides,
// with the counting rule, where a pod counts. A change of the facts (ApplyFacts) or of the ledger (ApplyLedger)
// recounts the pods that it names, so the cost of a change does not depend on the size of the cluster.
//
// The owner applies a change to the state.Store or the replica.View first, and then passes the Changes to this View.
// Everything here can be derived again (Reset); only the staged pods are the member's own.
//
// Start reading at View.recountAs and View.place. A View belongs to one goroutine.
package view
