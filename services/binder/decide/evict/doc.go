// Package evict carries out the binder's part of evictions: the plans that make room for a pod or move one (plan),
// the claims on single victims (removal), and the orders of the descheduler (eviction).
//
// A plan marks its victims in the ledger; an order claims its pod there. Each claim is one removal, which sends the
// eviction and reports its outcome. All of it can be continued by another binder from the ledger alone.
//
// Start reading at Evictor, then plan, removal and eviction.
package evict
