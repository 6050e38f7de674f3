package anomaly

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Workload identifies the workload of a pod, as far as the facts show it: Owner is the UID of its controller, or the
// pod's own for a pod without one; Created is the pod's. The zero value is a workload that is not known.
type Workload struct {
	Owner   string
	Created time.Time
}

// TimedState is a pod or an entry of the ledger that should not be long in its present state.
type TimedState struct {
	// Pod is namespace/name. Where describes the state, as the beginning of a sentence.
	Pod, Where string
	// Since is when it entered the state. Limit is how long it may be in it; 0 is without limit.
	Since time.Time
	Limit time.Duration
}

// Watch remembers the decisions of the last Window. It is for one goroutine.
type Watch struct {
	// preempted is by the UID of a controller, the other three by the UID of a pod.
	preempted map[string]*series
	nominated map[string]*series
	rejected  map[string]*series
	refused   map[string]*series
	swept     series
}

// series holds the times of one kind of event about one subject, oldest first. name and detail are for the finding.
type series struct {
	name   string
	times  []time.Time
	detail string
}

// NewWatch returns a Watch that remembers nothing.
func NewWatch() *Watch {
	return &Watch{
		preempted: map[string]*series{}, nominated: map[string]*series{}, rejected: map[string]*series{},
		refused: map[string]*series{},
	}
}

// RecordDecision records one decision of the log, which was stored at that time. Decisions must arrive in the order
// of the log. A bind ends the series of its pod: what happened before it was resolved. workload is that of the pod as
// the facts show it; only evictions need it.
func (w *Watch) RecordDecision(d events.Decision, at time.Time, workload Workload) {
	pod := d.Pod.Namespace + "/" + d.Pod.Name
	switch d.Kind {
	case events.DecisionNominated:
		record(w.nominated, d.Pod.UID, pod, at).detail = "last on node " + d.NodeName
	case events.DecisionBound:
		delete(w.nominated, d.Pod.UID)
		delete(w.rejected, d.Pod.UID)
		delete(w.refused, d.Pod.UID)
	case events.DecisionFenceRefused:
		record(w.refused, d.Pod.UID, pod, at).detail = fmt.Sprintf("last on node %s: %s", d.NodeName, d.Message)
	case events.DecisionReleased, events.DecisionRejected:
		delete(w.refused, d.Pod.UID)
		record(w.rejected, d.Pod.UID, pod, at).detail = fmt.Sprintf("last on node %s: %s",
			d.NodeName, cmp.Or(d.Message, "the reservation was cancelled"))
	case events.DecisionEvicted:
		if d.Strategy == "" {
			w.recordPreemption(d, at, workload)
		}
	}
}

// recordPreemption records the preemption of a pod, unless it is the first of its workload: only a pod that was
// created after the first preempted one is a replacement. So a large workload may lose many pods at once without a
// finding.
func (w *Watch) recordPreemption(d events.Decision, at time.Time, workload Workload) {
	if workload.Owner == "" {
		return
	}
	s, known := w.preempted[workload.Owner]
	if known && !workload.Created.After(s.times[0]) {
		return
	}
	record(w.preempted, workload.Owner, workload.Owner, at).detail = "last pod " + d.Pod.Namespace + "/" + d.Pod.Name
}

// Reset forgets the decisions: the log is read again from its beginning, and delivers them once more. Pods found by the
// sweep stay, as they are not in the log.
func (w *Watch) Reset() {
	caught := w.swept
	*w = *NewWatch()
	w.swept = caught
}

// RecordSweep records pods that were placed because of the sweep.
func (w *Watch) RecordSweep(pods int, at time.Time) {
	for range min(pods, maxNames) {
		w.swept.times = append(w.swept.times, at)
	}
}

// record adds an event to a series, and forgets the oldest series when there are too many. A series keeps its first
// time and the newest ones, maxListed*repeatLimit in all.
func record(list map[string]*series, key, name string, at time.Time) *series {
	s := list[key]
	if s == nil {
		if len(list) >= maxNames {
			delete(list, leastRecent(list))
		}
		s = &series{name: name}
		list[key] = s
	}
	s.times = append(s.times, at)
	if len(s.times) > maxListed*repeatLimit {
		s.times = slices.Delete(s.times, 1, 2) // the first says since when
	}
	return s
}

// leastRecent returns the key of the series whose last event is the oldest; equal ones by key, so that the choice is
// reproducible. list must not be empty.
func leastRecent(list map[string]*series) string {
	return slices.MinFunc(slices.Collect(maps.Keys(list)), func(a, b string) int {
		return cmp.Or(list[a].last().Compare(list[b].last()), cmp.Compare(a, b))
	})
}

// last returns the time of the newest event; a series has at least one.
func (s *series) last() time.Time { return s.times[len(s.times)-1] }

// prune forgets events that are older than Window, and reports whether any are left.
func (s *series) prune(now time.Time) bool {
	s.times = slices.DeleteFunc(s.times, func(t time.Time) bool { return now.Sub(t) > Window })
	return len(s.times) > 0
}

// Findings evaluates all rules at a time. pods and entries are the states that may be overdue; their limits decide. It
// also forgets what is older than Window, and so must be called regularly to bound memory; the order of findings is
// that of Rules, then by age.
func (w *Watch) Findings(now time.Time, pods, entries []TimedState) Report {
	r := Report{Found: map[Rule]int{}}
	for _, rule := range Rules {
		var found []Finding
		switch rule {
		case PodOverdue:
			found = overdue(rule, pods, now)
		case HoldOverdue:
			found = overdue(rule, entries, now)
		case PreemptedAgain:
			found = repeated(rule, w.preempted, now, repeatLimit, "its pods were preempted %d times, including replacements; %s")
		case PreemptsInVain:
			found = repeated(rule, w.nominated, now, repeatLimit, "a place was held for it %d times without a bind; %s")
		case BindsRejected:
			found = repeated(rule, w.rejected, now, repeatLimit, "its bind failed %d times; %s")
		case FenceRefused:
			found = repeated(rule, w.refused, now, 1, "its reservation cannot be cancelled (reported %d times), %s")
		case CaughtBySweep:
			found = w.sweepFindings(now)
		}
		r.Found[rule] = len(found)
		slices.SortFunc(found, func(a, b Finding) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.About, b.About), cmp.Compare(a.Detail, b.Detail))
		})
		r.Findings = append(r.Findings, found[:min(len(found), maxListed)]...)
	}
	return r
}

// overdue returns the states that have lasted longer than their limit.
func overdue(rule Rule, list []TimedState, now time.Time) (found []Finding) {
	for _, p := range list {
		if age := now.Sub(p.Since); p.Limit > 0 && age > p.Limit {
			found = append(found, Finding{
				Rule: rule, About: p.Pod, Since: p.Since,
				Detail: fmt.Sprintf("%s for %s, expected at most %s", p.Where, age.Truncate(time.Second), p.Limit),
			})
		}
	}
	return found
}

// repeated returns the series with at least that many events within the window, and removes those without any.
func repeated(rule Rule, list map[string]*series, now time.Time, least int, sentence string) (found []Finding) {
	for key, s := range list {
		if !s.prune(now) {
			delete(list, key)
			continue
		}
		if len(s.times) >= least {
			found = append(found, Finding{
				Rule: rule, About: s.name, Since: s.times[0], Detail: fmt.Sprintf(sentence, len(s.times), s.detail),
			})
		}
	}
	return found
}

// sweepFindings returns one finding for all pods that the sweep has placed: their number matters, not their names.
func (w *Watch) sweepFindings(now time.Time) []Finding {
	if !w.swept.prune(now) {
		return nil
	}
	return []Finding{{
		Rule: CaughtBySweep, About: "queue", Since: w.swept.times[0],
		Detail: fmt.Sprintf("%d parked pods were placed without an event that woke them", len(w.swept.times)),
	}}
}
