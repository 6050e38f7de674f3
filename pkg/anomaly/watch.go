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
	preempted map[string]*spell
	nominated map[string]*spell
	rejected  map[string]*spell
	refused   map[string]*spell
	caught    spell
}

// spell is something that happens again and again to one thing.
type spell struct {
	name   string
	times  []time.Time
	detail string
}

// NewWatch remembers nothing.
func NewWatch() *Watch {
	return &Watch{
		preempted: map[string]*spell{}, nominated: map[string]*spell{}, rejected: map[string]*spell{},
		refused: map[string]*spell{},
	}
}

// Decided takes in one decision of the log, which was stored then. whose is the pod's workload
// as the facts have it; only evictions need it.
func (w *Watch) Decided(d events.Decision, at time.Time, whose Workload) {
	pod := d.Pod.Namespace + "/" + d.Pod.Name
	switch d.Kind {
	case events.DecisionNominated:
		note(w.nominated, d.Pod.UID, pod, at).detail = "last on node " + d.NodeName
	case events.DecisionBound:
		delete(w.nominated, d.Pod.UID)
		delete(w.rejected, d.Pod.UID)
		delete(w.refused, d.Pod.UID)
	case events.DecisionFenceRefused:
		note(w.refused, d.Pod.UID, pod, at).detail = fmt.Sprintf("last on node %s: %s", d.NodeName, d.Message)
	case events.DecisionReleased, events.DecisionRejected:
		delete(w.refused, d.Pod.UID)
		note(w.rejected, d.Pod.UID, pod, at).detail = fmt.Sprintf("last on node %s: %s",
			d.NodeName, cmp.Or(d.Message, "the reservation was cancelled"))
	case events.DecisionEvicted:
		if d.Strategy == "" {
			w.wasPreempted(d, at, whose)
		}
	}
}

// wasPreempted notes the end of a pod, if it is not the first of its workload: one that was
// created after another had to go, and now has to go as well. So a large workload may lose many
// pods at once.
func (w *Watch) wasPreempted(d events.Decision, at time.Time, whose Workload) {
	if whose.Owner == "" {
		return
	}
	s, known := w.preempted[whose.Owner]
	if known && !whose.Created.After(s.times[0]) {
		return
	}
	note(w.preempted, whose.Owner, whose.Owner, at).detail = "last pod " + d.Pod.Namespace + "/" + d.Pod.Name
}

// Anew forgets what decisions have said: the log is read once more, and they come again.
func (w *Watch) Anew() {
	caught := w.caught
	*w = *NewWatch()
	w.caught = caught
}

// Caught notes pods that the sweep has brought to a node.
func (w *Watch) Caught(pods int, at time.Time) {
	for range min(pods, maxNames) {
		w.caught.times = append(w.caught.times, at)
	}
}

// note adds to a spell, and forgets the oldest when there are too many.
func note(list map[string]*spell, key, name string, at time.Time) *spell {
	s := list[key]
	if s == nil {
		if len(list) >= maxNames {
			delete(list, oldest(list))
		}
		s = &spell{name: name}
		list[key] = s
	}
	s.times = append(s.times, at)
	if len(s.times) > maxListed*often {
		s.times = slices.Delete(s.times, 1, 2) // the first says since when
	}
	return s
}

func oldest(list map[string]*spell) string {
	return slices.MinFunc(slices.Collect(maps.Keys(list)), func(a, b string) int {
		return cmp.Or(list[a].last().Compare(list[b].last()), cmp.Compare(a, b))
	})
}

func (s *spell) last() time.Time { return s.times[len(s.times)-1] }

// pass forgets what is too old; false if nothing is left.
func (s *spell) pass(now time.Time) bool {
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
			found = repeated(rule, w.preempted, now, often, "its pods were preempted %d times, including replacements; %s")
		case PreemptsInVain:
			found = repeated(rule, w.nominated, now, often, "a place was held for it %d times without a bind; %s")
		case BindsRejected:
			found = repeated(rule, w.rejected, now, often, "its bind failed %d times; %s")
		case FenceRefused:
			found = repeated(rule, w.refused, now, 1, "its reservation cannot be cancelled (reported %d times), %s")
		case CaughtBySweep:
			found = w.sweeps(now)
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
func repeated(rule Rule, list map[string]*spell, now time.Time, least int, sentence string) (found []Finding) {
	for key, s := range list {
		if !s.pass(now) {
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

func (w *Watch) sweeps(now time.Time) []Finding {
	if !w.caught.pass(now) {
		return nil
	}
	return []Finding{{
		Rule: CaughtBySweep, About: "queue", Since: w.caught.times[0],
		Detail: fmt.Sprintf("%d parked pods were placed without an event that woke them", len(w.caught.times)),
	}}
}
