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
//	gangs       pods that are placed together
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
// # One pod, from its offer to its reservation
//
//  1. Core.accept turns the offer into a pending attempt. Core.decide takes pending attempts up until the batch is
//     full.
//  2. placer.admit checks that the shard may decide about the pod: it owns the partition, and has the facts that the
//     queue had. placer.place then decides in seven steps, which are listed there.
//  3. placer.stage makes the pod count on its node in this shard's view, and placer.finish puts the attempt into the
//     queue of staged ones; plugins that act come first.
//  4. Core.submit sends the staged attempts when no transaction is in flight: reserve.Reserver.Send builds a T1 from
//     them, and txn.Slot.Send emits it.
//  5. The answer is a later input. The Slot applies to the view of the ledger what the answer shows, and calls the T1
//     back: its attempts are placed, or decided again.
//
// # What a crash leaves
//
// The core writes nothing itself. Before the transaction of a pod, a crash leaves nothing but the lease of its
// offer, which expires. After it, the reservation is in the ledger, and binders carry it out without the shard. A
// decision that was not appended to the log any more is missing in the history, and changes nothing.
//
// # Order
//
// The order of the inputs within a step is fixed: ledger before facts, so that a reservation is known before its bind
// shows; then answers, then offers, so that new attempts see the newest state. The order of the effects is that in
// which they arose (step.Effects). Maps are read in sorted order wherever that shows in an effect.
//
// Start reading at Core.Step.
package decide
