package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is one thing that happened. The set is closed: FactsReset, FactsApplied,
// LedgerMoved, Decided, WorkAsked, Lead, StepDown, Tick.
type Input interface {
	apply(c *Core, now moment)
}

// Position is how far the facts are applied.
type Position struct {
	Sequence uint64
	// Epoch is the fact epoch of the last fact applied; see rewrite.go.
	Epoch uint64
	// PodProgress is the applied progress of pods; valid only if ProgressKnown.
	PodProgress   uint64
	ProgressKnown bool
}

// FactsReset replaces everything known about pods: the store was rebuilt.
type FactsReset struct {
	Pods []*state.Pod
	// Objects are the other objects of the cluster, for hints; see placement.Change.
	Objects  placement.Objects
	Position Position
}

// FactsApplied is what one batch of facts changed.
type FactsApplied struct {
	Changes  state.Changes
	Objects  placement.Objects
	Position Position
}

// Hold says whether a pod has a live reservation.
type Hold struct {
	PodUID string
	Live   bool
	// HW is the pod high-water of the document the entry vanished from (if not Live): the
	// facts must reach it before the absence of a bind means anything.
	HW uint64
	// Withdrawn says (if not Live) that it was a place held until others have gone, given up
	// or taken by a more important pod: nothing has failed that the pod should wait for.
	Withdrawn bool
	// Prepared says (if not Live) that it was a place held until plugins had done what they do before a
	// bind: the answer to the attempt says what the pod waits for.
	Prepared bool
	// Bound says (if not Live) that the facts show the pod bound: its place stays taken.
	Bound bool
}

// Freed is that promises about pods have ended, though these have not gone: they were claimed as
// victims, or others relied on them, or their place was held; or a claim on a disruption budget.
// It helps pods that are more important than Above.
type Freed struct{ Above int32 }

// LedgerMoved is what a batch of the ledger watch changed.
type LedgerMoved struct {
	// Reset means that Holds lists every live reservation there is.
	Reset bool
	// Generation: another generation of the ledger has begun, or is open.
	Generation bool
	Revision   int64
	Holds      []Hold
	// Freed says (if not Reset) whom it could help that pods may be preempted which might not
	// be, nil for nobody.
	Freed *Freed
	// Room: places that were kept for pods that are moved have been given up, so that others may
	// have them.
	Room bool
	// Owners names the member that holds each partition, "" for none; nil if unchanged.
	Owners *[ledger.Partitions]string
	// Wanted names the member that should hold each partition instead of whom the hash says,
	// "" for none; nil if unchanged. Shards are the live ones; nil if unchanged.
	Wanted *[ledger.Partitions]string
	Shards []string
}

// Decided carries records of the decisions log, in order. CaughtUp says that everything
// that was in the log when this replica started has come by now, Through up to where the log has been read:
// beyond the last decision, where records cannot be read or are gone.
//
// Shortened, if it is not nil, says that the log has lost records that were read, and ends at this sequence. What it
// keeps behind Through comes once more.
type Decided struct {
	Decisions []events.SequencedDecision
	Through   uint64
	CaughtUp  bool
	Shortened *uint64
	// Stored is when the log stored the record of Through; zero if that is not known.
	Stored time.Time
}

// WorkAsked is a shard's heartbeat and request for work. Every replica notes the window; only the leader has leases to
// renew or take back.
type WorkAsked struct {
	Request events.WorkRequest
}

// Lead makes the core give out work under a term. What an earlier leader has offered is
// not known: such pods are active here and are offered again, and the shard that works on
// one goes on under the new token.
//
// Decided is where the decisions log ended once no earlier leader led: up to there it may have pods let go.
type Lead struct {
	Term    int64
	Decided uint64
}

// StepDown ends the leadership: leases are forgotten and nothing more is given out.
type StepDown struct{}

// Tick only lets time pass.
type Tick struct{}

func (Tick) apply(*Core, moment) {}
