// Package podstatus writes to the status of pods that wait: the condition PodScheduled=False that a decision requires,
// and the nominatedNodeName of a place that is held.
//
// Neither is written while a bind may be in flight, because the write would move the resourceVersion that the bind
// relies on. Where both are due, one patch writes them.
//
// Writer has one condition for each pod with a decision that is not written yet, or whose write the facts do not show
// yet, and one nomination for each pod with a hold. Both are machines with at most one effect in flight. Conditions
// come from the decision log: every binder remembers them, up to Limits.Foreign for the partitions of others, until one
// of them publishes DecisionCondition. Nominations come from plans (package evict), and are only kept by the holder of
// the pod's partition.
//
// A condition that the API server refuses counts as written, because a retry would not help, and the queue waits for
// DecisionCondition, within bounds, before it offers the pod again. A crash after a patch leads to a second one that
// finds nothing to change.
//
// Start reading at Writer, then condition and nomination.
package podstatus
