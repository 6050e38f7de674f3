package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// output collects the effects of a step. Parts of the core add to it through the methods, and Core.Step returns them as
// one list. A core that does not lead emits no effect about a pod: each such report must come from one replica.
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

// hinted counts hints that were evaluated, by rule, event and result.
func (o *output) hinted(hints map[waiting.HintCount]int) {
	if o.counts.Hints == nil {
		o.counts.Hints = hints
		return
	}
	for k, n := range hints {
		o.counts.Hints[k] += n
	}
}

// effects returns what the step has collected. The order is fixed, so that equal steps give equal lists.
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

// any reports whether any counter is to be raised.
func (n *Counted) any() bool {
	return len(n.Incoming)+len(n.Hints)+n.Offered+n.Expired+n.Returned+n.Quarantined+n.Flushed+n.Caught > 0
}

// clock converts between times and moments. A moment has a third of the size of a time, and the pools hold several for
// each of up to a million pods.
type clock struct {
	origin time.Time
	// now is the latest moment, nextTick the one last requested.
	now, nextTick waiting.Moment
}

// advance advances the clock to a time and returns the moment. If the given time runs backwards, the clock stands
// still. The first moment is after the origin, so that 0 stays never.
func (c *clock) advance(at time.Time) waiting.Moment {
	if c.origin.IsZero() {
		c.origin = at.Add(-1)
	}
	c.now = max(c.now, waiting.Moment(at.Sub(c.origin)))
	return c.now
}

// timeOf returns the time of a moment; zero for never.
func (c *clock) timeOf(m waiting.Moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return c.origin.Add(time.Duration(m))
}

// momentOf returns the moment of a time.
func (c *clock) momentOf(t time.Time) waiting.Moment { return waiting.Moment(t.Sub(c.origin)) }
