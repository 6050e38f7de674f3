package anomaly

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Workload is whose pod one was, as far as the facts show: its controller's UID, or the pod's own
// for one without. The zero value is one that is not known.
type Workload struct {
	Owner   string
	Created time.Time
}

// Waiting is a pod that stands where it should not stand long.
type Waiting struct {
	// Pod is namespace/name, Where says where it stands.
	Pod, Where string
	// Since is when it came there, Limit how long that may be.
	Since time.Time
	Limit time.Duration
}

// Watch remembers what has happened lately. For one goroutine.
type Watch struct {
	preempted map[string]*series
	nominated map[string]*series
	rejected  map[string]*series
	refused   map[string]*series
	swept     series
}

// series is something that happens again and again to one thing.
type series struct {
	name   string
	times  []time.Time
	detail string
}

// NewWatch remembers nothing.
func NewWatch() *Watch {
	return &Watch{
		preempted: map[string]*series{}, nominated: map[string]*series{}, rejected: map[string]*series{},
		refused: map[string]*series{},
	}
}

// Decided takes in one decision of the log, which was stored then. whose is the pod's workload
// as the facts have it; only evictions need it.
func (w *Watch) Decided(d events.Decision, at time.Time, workload Workload) {
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

// recordPreemption notes the end of a pod, if it is not the first of its workload: one that was
// created after another had to go, and now has to go as well. So a large workload may lose many
// pods at once.
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

// Anew forgets what decisions have said: the log is read once more, and they come again.
func (w *Watch) Anew() {
	caught := w.swept
	*w = *NewWatch()
	w.swept = caught
}

// Caught notes pods that the sweep has brought to a node.
func (w *Watch) Caught(pods int, at time.Time) {
	for range min(pods, maxNames) {
		w.swept.times = append(w.swept.times, at)
	}
}

// record adds to a spell, and forgets the oldest when there are too many.
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

func leastRecent(list map[string]*series) string {
	return slices.MinFunc(slices.Collect(maps.Keys(list)), func(a, b string) int {
		return cmp.Or(list[a].last().Compare(list[b].last()), cmp.Compare(a, b))
	})
}

func (s *series) last() time.Time { return s.times[len(s.times)-1] }

// prune forgets what is too old; false if nothing is left.
func (s *series) prune(now time.Time) bool {
	s.times = slices.DeleteFunc(s.times, func(t time.Time) bool { return now.Sub(t) > Window })
	return len(s.times) > 0
}

// Findings judges what has happened, and what stands, at a time. standing are the pods and
// entries that may be overdue: see Trying and Entry.
func (w *Watch) Findings(now time.Time, pods, entries []Waiting) Report {
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

func overdue(rule Rule, list []Waiting, now time.Time) (found []Finding) {
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

// repeated finds what has happened least times or more within the window.
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

func (w *Watch) sweepFindings(now time.Time) []Finding {
	if !w.swept.prune(now) {
		return nil
	}
	return []Finding{{
		Rule: CaughtBySweep, About: "queue", Since: w.swept.times[0],
		Detail: fmt.Sprintf("%d parked pods were placed without an event that woke them", len(w.swept.times)),
	}}
}
