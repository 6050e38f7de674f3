// Package quota limits how many pods of a namespace may leave its quota gate: the budgets of namespaces, the pods
// that wait for room in them, and the pods that were let go and still have their gate. It is pure: inputs and the
// time come in, and the pods to let go come out.
//
// A namespace may have a budget (in an annotation), and its pods a gate (from an admission policy). A pod whose last
// gate this is waits, by priority and then by arrival, until the budget has room for it; the binder then removes the
// gate. Every pod of the namespace counts against the budget that has not ended and has no such gate, and so does
// every pod whose gate is about to be removed. A pod that would fit does not overtake the head of the queue.
//
// A decision to let a pod go is not withdrawn: binders that cannot reach the API server repeat the removal, and the
// queue requests it again. So the pod counts, under every leader, until the facts show it without its gate or gone;
// see leaving.go. The log may lose the decision, though, after a binder has read it. So binders try for a bounded
// time (events.UngateFor), and a new leader waits longer than that (SettleTime) before it lets other pods go.
//
// Namespaces take turns by deficit round robin (Shreedhar, Varghese: Efficient Fair Queuing using Deficit Round
// Robin, 1995). With each turn a namespace may let go another quantum of CPU, so that a namespace with many pods does
// not delay the others while the binders are busy. For a pod that was let go and still has its gate after RemovalTime,
// the removal is requested again before other pods of its namespace are let go.
//
// A namespace gets a turn when something about it has changed: its budget, its usage, the head of its queue, or a
// removal that is overdue. Admit serves the turns and nothing else, so a step in which no namespace has changed costs
// nothing, however many pods wait.
//
// Start reading at Budgets, then Budgets.Admit. Budgets owns the queues and the turns; namespace has one budget and its
// queue; Departures has the pods that were let go, and alone changes what they count. The caller reports every pod of
// every scheduler (PodChanged), the pods with gates (Enter, Update, Reorder, Leave), the decisions that the log has
// (Recorded), and the begin and end of its term (Lead, StepDown).
//
// For example, a namespace with the budget pods=10 has ten running pods, and an eleventh has the quota gate. It is
// entered and waits. A pod ends: PodChanged lowers the usage, and the namespace gets a turn. Admit returns the eleventh
// pod, which counts from now on as one that leaves, and the caller records the decision. The binder removes the gate;
// PodChanged shows the pod without it, and the pod counts as used instead.
package quota
