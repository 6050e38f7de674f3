package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/balance"
	"github.com/berth-scheduler/berth/services/queue/internal/waiting"
)

// Effect is something to carry out. The set is closed: SendOffers, Record, Complaint, MovePartitions, PodBound,
// PodWaited, Counted, NextTick. Effects are hints and reports. Losing any of them costs time, a number or an
// explanation, never correctness, so their order does not matter.
type Effect interface {
	effect()
}

// SendOffers sends one message of offers to one shard.
type SendOffers struct {
	Shard string
	Batch events.OfferBatch
}

// Record appends a decision made by the queue to the log.
type Record struct {
	Decision events.Decision
}

// Complaint is a problem that people must fix.
type Complaint struct {
	Text string
}

// MovePartitions records in the ledger which member should hold partitions, each at most once.
type MovePartitions struct {
	Moves []balance.Move
}

// PodBound reports that a pod's bind was seen in the facts.
type PodBound struct {
	Pod *state.Pod
	// Attempts counts the offers made, to this replica's knowledge.
	Attempts int32
	// Seen is when the queue first knew the pod, FirstOffer when it first offered it (zero: never), and Bound the
	// time of the step that saw the bind.
	Seen, FirstOffer, Bound time.Time
}

// PodWaited reports that a pod has left a pool in which it waited: gated, backoff or parked.
type PodWaited struct {
	Pod  *state.Pod
	Pool waiting.Pool
	// Since is when the pod entered the pool, Until when it left, and Event what moved it out.
	Since, Until time.Time
	Event        string
	// Rejectors are the rules that had rejected it.
	Rejectors []string
}

// Incoming is one way into a pool: the label values of queue_incoming_pods_total.
type Incoming struct {
	Pool  waiting.Pool
	Event string
}

// Counted adds to counters.
type Counted struct {
	Incoming map[Incoming]int
	Hints    map[waiting.HintCount]int
	// Offered, Expired and Returned count leases granted, expired and returned. Quarantined counts the pods put into
	// quarantine.
	Offered, Expired, Returned, Quarantined int
	// Flushed counts pods that no event woke within the flush period. Caught counts those of them that were placed
	// afterwards: each is an event that a hint has missed, which is a bug.
	Flushed, Caught int
}

// NextTick requests a step no later than At. It replaces an earlier one.
type NextTick struct {
	At time.Time
}

func (SendOffers) effect()     {}
func (Record) effect()         {}
func (Complaint) effect()      {}
func (MovePartitions) effect() {}
func (PodBound) effect()       {}
func (PodWaited) effect()      {}
func (Counted) effect()        {}
func (NextTick) effect()       {}

// output collects the effects of a step.
type output struct {
	// clock dates the effects. leading means that this replica leads, and traces that PodWaited is wanted. They outlive
	// the step.
	clock           *clock
	leading, traces bool

	offers  []SendOffers
	records []Record
	// complaints are emitted when they arise, whether or not this replica leads.
	complaints []Complaint
	moves      []balance.Move
	bound      []PodBound
	waited     []PodWaited
	counts     Counted
	tick       time.Time
}

// begin drops the effects of the step before.
func (o *output) begin() { *o = output{clock: o.clock, leading: o.leading, traces: o.traces} }

// complain emits a problem that people must fix; "" is none.
func (o *output) complain(problem string) {
	if problem != "" {
		o.complaints = append(o.complaints, Complaint{Text: problem})
	}
}

// podBound emits PodBound for a pod whose bind the facts show.
func (o *output) podBound(e *waiting.Entry, p *state.Pod) {
	if !o.leading {
		return
	}
	if e.Attempt.Flushed {
		o.counts.Caught++
	}
	o.bound = append(o.bound, PodBound{
		Pod: p, Attempts: e.Attempt.Count, Seen: o.clock.timeOf(e.Seen),
		FirstOffer: o.clock.timeOf(e.Attempt.FirstOffer), Bound: o.clock.timeOf(o.clock.now),
	})
}

// Waited emits PodWaited, for tracing, when a pod leaves a pool in which it waited.
func (o *output) Waited(e *waiting.Entry, event string, now waiting.Moment) {
	if !o.leading || !o.traces || e.Pool() == waiting.PoolNone || now == e.Entered {
		return
	}
	switch pool := e.Pool(); pool {
	case waiting.PoolGated, waiting.PoolBackoff, waiting.PoolParked:
		o.waited = append(o.waited, PodWaited{
			Pod: e.Pod, Pool: pool, Since: o.clock.timeOf(e.Entered), Until: o.clock.timeOf(now), Event: event,
			Rejectors: e.Verdict.Plugins,
		})
	}
}

// Entered counts a pod that enters a pool.
func (o *output) Entered(pool waiting.Pool, event string) {
	if !o.leading {
		return
	}
	if o.counts.Incoming == nil {
		o.counts.Incoming = map[Incoming]int{}
	}
	o.counts.Incoming[Incoming{Pool: pool, Event: event}]++
}

func (o *output) hinted(hints map[waiting.HintCount]int) {
	if o.counts.Hints == nil {
		o.counts.Hints = hints
		return
	}
	for k, n := range hints {
		o.counts.Hints[k] += n
	}
}

func (o *output) effects() []Effect {
	var out []Effect
	for _, e := range o.offers {
		out = append(out, e)
	}
	for _, e := range o.records {
		out = append(out, e)
	}
	for _, e := range o.complaints {
		out = append(out, e)
	}
	if len(o.moves) > 0 {
		out = append(out, MovePartitions{Moves: o.moves})
	}
	for _, e := range o.bound {
		out = append(out, e)
	}
	for _, e := range o.waited {
		out = append(out, e)
	}
	if n := &o.counts; n.any() {
		out = append(out, *n)
	}
	if !o.tick.IsZero() {
		out = append(out, NextTick{At: o.tick})
	}
	return out
}

func (n *Counted) any() bool {
	return len(n.Incoming)+len(n.Hints)+n.Offered+n.Expired+n.Returned+n.Quarantined+n.Flushed+n.Caught > 0
}
