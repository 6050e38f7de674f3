// Package decide is the shard's decision core: a state machine whose inputs are facts, ledger changes, offers and
// transaction results, and whose outputs are effects as data. It has no clock, no goroutine, no I/O and no
// randomness, so that a recorded sequence of inputs replays to the same effects.
//
// Core orders the steps; each part of the state belongs to a type in a package of its own:
//
//	step        what goes into a step and comes out of it
//	shard       what the shard knows: facts, ledger, counting view, who it is
//	attempt     one attempt at a pod, and the queues of all
//	record      what is recorded of decisions
//	lifecycle   how attempts end or are put back
//	txn         the one transaction in flight
//	crossnode   hard rules about pods on other nodes, and the registration of their terms
//	search      the nodes that a pod may go to
//	claims      what claims to volumes and devices get
//	avoid       the nodes that pods avoid for a while
//	advice      questions to extenders and plugins, and what plugins do
//	preempt     places that are made by evictions, taken over, or kept
//	reserve     reservations
//
// An attempt is in one phase at a time; the phase names what it waits for. A step takes attempts up, decides each
// (place.go), and puts it where it waits next:
//
//	pending ──► deciding ──► staged ──► inFlight (transaction sent) ──► ended: placed
//	   ▲           └──► deferred (facts or high-water not there yet)   │
//	   └───────────────── lost the race, with fresh documents ─────────┘
//
// An attempt that plugins or extenders take part in is consulting before it is staged, and reserving afterwards. An
// attempt that fits nowhere is rejected, and then seeking (package preempt), before its verdict is recorded.
//
// At most one transaction is in flight per shard. Meanwhile the next batch is decided on top of it, because staged
// pods count in the view.
//
// Start reading at Core.Step.
package decide
