// Package simulate says what would become of a cluster if something were otherwise: nodes drained,
// added or gone, other rules, a descheduling policy, more pods. It plays the consequences through
// on a copy of the state, by the rules that the services decide by: package placement for places and
// preemption, package descheduling/plan for a policy, package ledger/view for what counts where.
//
// One queue is played, in its order, by one shard that looks at all nodes, and time stands still:
// pods that go are gone at once, and what owns them makes them anew at once. So it tells what fits
// and what does not, and who has to go; which of equally good nodes a pod gets may be another one.
//
// Pure: no clock, no I/O, no randomness. Equal inputs give equal reports.
//
// Start reading at Run.
package simulate
