package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Input is one event. The set is closed: FactsReset, FactsApplied, LedgerMoved, Decided, WorkRequested, Lead, StepDown,
// Tick, Remembered.
type Input interface {
	apply(c *Core, now waiting.Moment)
}

// FactsReset replaces everything known about pods, because the store was rebuilt.
type FactsReset struct {
	Pods []*state.Pod
	// Objects are the other objects of the cluster, for hints; see rule.Change.
	Objects  rule.Objects
	Position waiting.Position
}

// FactsApplied holds the changes made by one batch of facts.
type FactsApplied struct {
	Changes  state.Changes
	Objects  rule.Objects
	Position waiting.Position
}

// Hold reports whether a pod has a live reservation.
type Hold struct {
	PodUID string
	Live   bool
	// HW is the pod high-water of the document from which the entry vanished (if not Live). The facts must reach it
	// before the absence of a bind means anything.
	HW uint64
	// Withdrawn means (if not Live) that the entry was a place held until victims have gone, which was given up or
	// taken by a more important pod: nothing has failed that the pod should wait for.
	Withdrawn bool
	// Prepared means (if not Live) that the entry was a place held until plugins had done their work before a bind:
	// the answer to the attempt determines what the pod waits for.
	Prepared bool
	// Bound means (if not Live) that the facts show the pod bound, so its place stays taken.
	Bound bool
}

// Freed means that promises which protected pods have ended while these pods remain: they were claimed as victims,
// other pods relied on them, or their place was held; or that a claim on a disruption budget has ended. It helps pods
// with a priority higher than Above.
type Freed struct{ Above int32 }

// LedgerMoved holds the changes made by a batch of the ledger watch.
type LedgerMoved struct {
	// Reset means that Holds lists every live reservation.
	Reset bool
	// Generation means that another generation of the ledger has begun or been opened.
	Generation bool
	Revision   int64
	Holds      []Hold
	// Freed (if not Reset) describes which pods may now find victims that were protected before; nil for none.
	Freed *Freed
	// PlaceFreed means that places kept for pods that are moved have been given up, so that other pods may use them.
	PlaceFreed bool
	// Owners names the member that holds each partition, "" for none. It is nil if unchanged.
	Owners *[ledger.Partitions]string
	// Requested names the member that should hold each partition instead of the one that the hash picks, "" for none;
	// nil if unchanged. Shards are the live shards; nil if unchanged.
	Requested *[ledger.Partitions]string
	Shards    []string
}

// Decided carries records of the decisions log, in order. CaughtUp means that everything that was in the log when
// this replica started has been delivered. Through is how far the log has been read, which may be beyond the last
// decision where records cannot be read or are gone.
//
// A non-nil Shortened means that the log has lost records that were read and now ends at this sequence. The records
// that it still has behind Through are delivered again.
type Decided struct {
	Decisions []events.SequencedDecision
	Through   uint64
	CaughtUp  bool
	Shortened *uint64
	// Stored is when the log stored the record of Through; zero if that is not known.
	Stored time.Time
}

// WorkRequested is a shard's heartbeat and request for work. Every replica records the window; only the leader has
// leases to renew or take back.
type WorkRequested struct {
	Request work.Request
}

// Lead makes the core offer pods under a term. The offers of an earlier leader are not known: their pods are active
// here and are offered again, and the shard that works on such a pod continues under the new token.
//
// Decided is where the decisions log ended once no earlier leader led. Up to there, the log may have decisions to let
// pods go.
type Lead struct {
	Term    int64
	Decided uint64
}

// StepDown ends the leadership: leases are forgotten and nothing more is offered.
type StepDown struct{}

// Tick only advances the time.
type Tick struct{}

func (Tick) apply(*Core, waiting.Moment) {}
