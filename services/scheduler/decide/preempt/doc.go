// Package preempt places pods that fit nowhere: it evicts less important pods for them, or takes over a place that
// is kept for another pod. Each change of a plan is a transaction of its own:
//
//	rejected ──► seeking ──► T2: a place is held ──► victims gone ──► T3: placed
//	                │            ▲            └──► T8: given up, the queue offers the pod again
//	                └──► T4: takes over the place of a less important pod
//
// The parts: the nominator looks for victims and holds a place (T2), or takes a held place over (T4). holds indexes
// the places that are held for pods of this shard's partitions, whichever shard made them: the ledger is the only
// record of a hold. The reconciler watches them until it promotes the pod (T3) or gives the place up (T8). places
// lets a pod take over the place that is kept for it because the pod that it replaces was moved. loops remembers
// which plans failed, and budgets how many evictions each disruption budget has left.
//
// Start reading at Preemption.Propose.
package preempt
