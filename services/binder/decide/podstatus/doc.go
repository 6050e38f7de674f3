// Package podstatus writes to the status of pods that wait: the condition PodScheduled=False that a decision requires,
// and the nominatedNodeName of a place that is held.
//
// Neither is written while a bind may be in flight, because the write would move the resourceVersion that the bind
// relies on. Where both are due, one patch writes them.
//
// Start reading at Writer, then condition and nomination.
package podstatus
