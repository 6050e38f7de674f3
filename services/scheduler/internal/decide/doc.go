// Package decide is the shard's decision core: a state machine that is fed facts, ledger
// changes, offers and transaction results, and answers with effects as data. It has no
// clock, no goroutine, no I/O and no randomness, so that a recorded sequence of inputs
// replays to the same effects.
//
// One attempt at a pod is in one phase (attempts.go), which says what it waits for. A step takes attempts up,
// decides, and puts each where it waits next:
//
//	pending ──► deciding ──► staged ──► inFlight (transaction sent) ──► ended: placed
//	   ▲           └──► deferred (facts or high-water not there yet)   │
//	   └───────────────── lost the race, with fresh documents ─────────┘
//
// Attempts that plugins and extenders have a say in are consulting before they are staged (consult.go), and
// reserving after (perform.go).
//
// At most one transaction is in flight per shard; while it is, the next batch is decided
// on top of it, because what is staged counts in the view.
//
// Hard rules about pods on other nodes need more than the node's document (package guard):
// an attempt may have to wait until its terms are registered, until every pod in a domain is
// counted, or until what it follows is bound (cross.go, keepers.go), and its transaction
// compares guards at the revisions that it has counted. Spread must hold without the pods whose places are only held,
// too (onhold.go).
//
// An attempt that fits nowhere is asked about preemption (nominate.go) before its verdict is
// told. What becomes of a plan is done by deeds (deed.go), transactions of their own:
//
//	rejected ──► seeking ──► T2: a place is held ──► victims gone ──► T3: placed
//	                │            ▲            └──► T8: given up, the queue offers the pod again
//	                └──► T4: takes over the place of a less important pod
//
// Where extenders have a say, a seeker waits for what they say of victims before T2, and a place for what they say
// of its node before T3 (consultvictims.go).
//
// A pod for which the ledger keeps a place, because the one before it was moved, takes that over
// in its T1 if it fits there (kept.go); a more important one that fits nowhere ousts it.
//
// The ledger is the only record of a hold: whoever owns the pod's partition looks after it
// (plans.go, promote.go, abort.go). What has come to nothing is remembered here alone, by the
// shard that saw it (loopbreak.go).
//
// Plugins that act once a node has been chosen do so while it is staged, and if they have more to do then, while the
// place is Held in the ledger (perform.go).
//
// Start reading at Core.Step.
package decide
