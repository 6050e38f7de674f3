package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// Step is one part of a pod's path, with its start and end by the log's clock.
type Step struct {
	// Name is the name of the span of the same step in a trace: seen, queued, parked, attempt, filter, score,
	// reserve, hold, bind, evict, leave.
	Name       string
	Start, End time.Time
	// Depth is 1 for a part of the step above it.
	Depth  int    `json:",omitempty"`
	Detail string `json:",omitempty"`
	// Open reports that the step has not ended; End is then the time of the query.
	Open bool `json:",omitempty"`
}

// Steps returns the path that a story describes. The times between two records come from the evidence of decisions:
// how long the pod was in the queue, was evaluated, and waited for the ledger. Steps that have not ended last until
// now.
func (s *Story) Steps(now time.Time) []Step {
	w := pathBuilder{}
	for _, e := range s.Events {
		if e.Decision != nil {
			w.decided(e)
		} else {
			w.fact(e)
		}
	}
	w.end(s, now)
	slices.SortStableFunc(w.steps, func(a, b Step) int { return a.Start.Compare(b.Start) })
	return w.steps
}

// pathBuilder iterates over the events of a story and closes a step when the event arrives that ends it. A state that
// no event has ended is open (end).
type pathBuilder struct {
	steps []Step
	// parked, held, placed and leaving are when the pod entered that state, zero when it is not in it.
	parked, held, placed, leaving time.Time
	// why is the reason it was parked; node is the node on which it is held or placed.
	why, node string
	// last is the end of the newest step or event: from there a waiting pod is in the queue.
	last time.Time
}

// add adds a step that has ended.
func (w *pathBuilder) add(s Step) {
	if s.End.Before(s.Start) {
		s.Start = s.End // the two times come from different clocks
	}
	w.steps = append(w.steps, s)
	w.last = later(w.last, s.End)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fact handles an event of the facts. The names are those of changes (story.go).
func (w *pathBuilder) fact(e Event) {
	w.last = later(w.last, e.Time)
	switch e.What {
	case "seen":
		w.add(Step{Name: "seen", Start: e.Time, End: e.Time, Detail: e.Detail})
	case "gated":
		w.parked, w.why = e.Time, "gated: "+e.Detail
	case "gates removed":
		w.unpark(e.Time)
	// A bind without a placement before it is by another scheduler, or the decision was reported first.
	case "bound":
		if !w.placed.IsZero() {
			w.add(Step{Name: "bind", Start: w.placed, End: e.Time, Detail: e.Detail})
			w.placed = time.Time{}
		}
	case "leaving":
		w.leaving = e.Time
	case "deleted":
		w.add(Step{Name: "leave", Start: firstSet(w.leaving, e.Time), End: e.Time, Detail: "deleted"})
		w.leaving = time.Time{}
	}
}

// firstSet returns a, or b if a is zero.
func firstSet(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

// unpark ends the time in which the pod was parked or gated, if it was.
func (w *pathBuilder) unpark(at time.Time) {
	if !w.parked.IsZero() {
		w.add(Step{Name: "parked", Start: w.parked, End: at, Detail: w.why})
		w.parked = time.Time{}
	}
}

// decided handles a decision: first the attempt that led to it, whose times are in the evidence, then the state that
// follows from it.
func (w *pathBuilder) decided(e Event) {
	d := e.Decision
	w.last = later(w.last, e.Time)
	if d.Evidence != nil {
		w.attempt(e)
	}
	switch d.Kind {
	// The pod waits from here on, for an event, the end of a backoff, or the end of a quarantine.
	case events.DecisionUnplaceable, events.DecisionFailed, events.DecisionQuarantined, events.DecisionHeldBack:
		w.parked, w.why = e.Time, d.Message
		if len(d.Plugins) > 0 {
			w.why = "by " + strings.Join(d.Plugins, ", ")
		}
	case events.DecisionNominated:
		w.held, w.node = e.Time, d.NodeName
	case events.DecisionWithdrawn:
		w.unhold(e.Time, d.Message)
	// A placement after a nomination is its promotion: the hold has ended because the victims left.
	case events.DecisionPlaced:
		w.unhold(e.Time, "victims left "+d.NodeName)
		w.placed, w.node = e.Time, d.NodeName
	case events.DecisionBound:
		if w.placed.IsZero() {
			return // the fact arrived first
		}
		w.add(Step{Name: "bind", Start: w.placed, End: e.Time, Detail: "to " + d.NodeName})
		w.placed = time.Time{}
	case events.DecisionReleased:
		w.add(Step{Name: "bind", Start: firstSet(w.placed, e.Time), End: e.Time, Detail: "released: " + d.Message})
		w.placed = time.Time{}
	case events.DecisionEvict:
		w.leaving = e.Time
	case events.DecisionEvicted:
		w.add(Step{Name: "evict", Start: firstSet(w.leaving, e.Time), End: e.Time, Detail: d.Message})
	}
}

// unhold ends the time in which a place was held for the pod, if one was.
func (w *pathBuilder) unhold(at time.Time, why string) {
	if !w.held.IsZero() {
		w.add(Step{Name: "hold", Start: w.held, End: at, Detail: why})
		w.held = time.Time{}
	}
}

// attempt adds the steps before a decision. The log stored the decision when the attempt was over; its evidence has
// three durations that end there, one after the other: waited in the queue, considered by the shard, reserved in the
// ledger. So the start of each step follows by subtraction, and needs only the log's clock.
func (w *pathBuilder) attempt(e Event) {
	d, evidence := e.Decision, e.Decision.Evidence
	// Backward from the time at which the decision was stored: reserved, considered, waited.
	decided := e.Time.Add(-evidence.Reserved)
	begin := decided.Add(-evidence.Considered)
	came := begin.Add(-evidence.Waited)
	if d.Kind != events.DecisionLost { // a lost race goes on without a new wait in the queue
		w.unpark(came)
		w.add(Step{Name: "queued", Start: came, End: begin, Detail: evidence.Cause})
	}
	outcome := string(d.Kind)
	if d.NodeName != "" {
		outcome += " on " + d.NodeName
	}
	w.add(Step{
		Name: "attempt", Start: begin, End: e.Time,
		Detail: fmt.Sprintf("try %d by %s: %s, %d of %d nodes feasible", d.Attempt, d.Actor, outcome,
			d.NodesFeasible, d.NodesTotal),
	})
	if rejected := Rejections(evidence.Rejected); len(rejected) > 0 {
		w.add(Step{Name: "filter", Start: begin, End: decided, Depth: 1, Detail: strings.Join(rejected, ", ")})
	}
	if len(evidence.Candidates) > 0 {
		w.add(Step{Name: "score", Start: begin, End: decided, Depth: 1, Detail: candidatesText(evidence)})
	}
	if evidence.Reserved > 0 {
		w.add(Step{Name: "reserve", Start: decided, End: e.Time, Depth: 1, Detail: reservedText(d)})
	}
}

// candidatesText lists the best nodes of an attempt with their scores.
func candidatesText(e *evidence.Evidence) string {
	list := make([]string, len(e.Candidates))
	for i, c := range e.Candidates {
		list[i] = fmt.Sprintf("%s %d", c.Node, c.Total)
	}
	return strings.Join(list, ", ")
}

// reservedText describes the outcome of a transaction.
func reservedText(d *events.Decision) string {
	if d.Kind == events.DecisionLost {
		return "lost: " + d.Message
	}
	return fmt.Sprintf("ledger revision %d", d.LedgerRevision)
}

// end adds the steps that have not ended, unless the pod has. A pod that waits and is neither parked nor gated is in
// the queue, since the last event.
func (w *pathBuilder) end(s *Story, now time.Time) {
	if s.State == stateGone || s.State == stateEnded {
		return
	}
	// A waiting pod in none of these states waits in the queue.
	idle := w.parked.IsZero() && w.held.IsZero() && w.placed.IsZero() && w.leaving.IsZero()
	queued := time.Time{}
	if s.State == stateWaiting && idle {
		queued = w.last
	}
	for _, open := range []struct {
		name   string
		since  time.Time
		detail string
	}{
		{"queued", queued, ""}, {"parked", w.parked, w.why}, {"hold", w.held, "on " + w.node},
		{"bind", w.placed, "to " + w.node}, {"leave", w.leaving, ""},
	} {
		if !open.since.IsZero() {
			w.steps = append(w.steps, Step{
				Name: open.name, Start: open.since, End: later(later(w.last, open.since), now),
				Detail: open.detail, Open: true,
			})
		}
	}
}

const (
	// barColumns is the width of the bars of a waterfall, detailColumns the width of the details next to them
	// unless all are requested.
	barColumns    = 36
	detailColumns = 76
)

// Waterfall draws the path as of now, one step per line: name, start after the first step, duration, a bar, and the
// detail. wide shows details in full. It returns the first error of w.
//
//	queued           +0s     12ms |====                                | created
//	attempt        +12ms    3.1ms |    ==                              | try 1 by scheduler-0: placed on n1, …
//	  reserve      +13ms    2.1ms |     =                              | ledger revision 4711
//	bind         +15.1ms     40ms |     ===============================| to n1
func (s *Story) Waterfall(w io.Writer, now time.Time, wide bool) error {
	steps := s.Steps(now)
	p := &page{w: w, wide: wide}
	if len(steps) == 0 {
		p.line("pod %s/%s  uid %s: no record of its path", s.Namespace, s.Name, s.UID)
		return p.err
	}
	// Steps are sorted by their starts, so the first one begins the path; any may end it.
	begin, end := steps[0].Start, steps[0].End
	for _, step := range steps {
		end = later(end, step.End)
	}
	total := end.Sub(begin)
	p.line("pod %s/%s  trace %s", s.Namespace, s.Name, strings.ReplaceAll(s.UID, "-", ""))
	p.line("%s  %s in total, %s", begin.UTC().Format(time.RFC3339Nano), short(total), s.State)
	for _, step := range steps {
		name := strings.Repeat("  ", step.Depth) + step.Name
		took := short(step.End.Sub(step.Start))
		if step.Open {
			took += "…"
		}
		detail := oneLine(step.Detail)
		if !wide {
			detail = truncate(detail, detailColumns)
		}
		p.line("%-10s %9s %8s |%s| %s", name, "+"+short(step.Start.Sub(begin)), took, bar(step, begin, total), detail)
	}
	for _, note := range s.Notes {
		p.line("note: %s", note)
	}
	return p.err
}

// bar draws a step's position within the whole path, barColumns wide; a step shorter than a column is a dot.
func bar(s Step, begin time.Time, total time.Duration) string {
	at := func(t time.Time) int {
		return int(int64(barColumns-1) * int64(t.Sub(begin)) / cmp.Or(int64(total), 1))
	}
	from, to := at(s.Start), at(s.End)
	mark := "="
	if from == to {
		mark = "."
	}
	return strings.Repeat(" ", from) + strings.Repeat(mark, to-from+1) + strings.Repeat(" ", barColumns-1-to)
}

// short formats a duration in about four digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// truncate shortens a text to a number of runes, the last of which is then an ellipsis.
func truncate(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}
