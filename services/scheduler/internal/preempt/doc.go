// Package preempt places pods that fit nowhere: less important pods are evicted for them, or a place is taken that is
// kept for another. What becomes of a plan is done by transactions of their own:
//
//	rejected ──► seeking ──► T2: a place is held ──► victims gone ──► T3: placed
//	                │            ▲            └──► T8: given up, the queue offers the pod again
//	                └──► T4: takes over the place of a less important pod
//
// The parts: the nominator looks for victims and holds a place (T2), or takes one over (T4). holds indexes the places
// that are held for pods of this shard's partitions, whichever shard made them: the ledger is the only record of a
// hold. The reconciler looks after them until it promotes the pod (T3) or gives the place up (T8). places finds a pod
// the place that is kept for it because the pod that it replaces was moved. loops remembers which plans came to
// nothing, and budgets how many evictions each disruption budget has left.
//
// Start reading at Preemption.Propose.
package preempt
