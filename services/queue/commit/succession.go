package commit

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"

	"github.com/berth-scheduler/berth/services/queue/decide"
)

// maxLeft bounds the pods whose replacements are tracked; the oldest are forgotten first. That many pods leave within
// minutes only when whole clusters are emptied.
const maxLeft = 4096

// succession finds the pods that replace those which Berth has evicted, to link their traces: a replacement is a pod
// that the same controller has created since, one for each. It ignores pods for whose replacement a place is kept:
// the shard that gives the place away knows both pods.
//
// The queue's own clock decides which pod came later: the watch of pods reports the end of a pod before the pod that
// a controller creates for it.
type succession struct {
	left map[string]*leaver
	// order holds the UIDs of left, the oldest first, and some that have been removed from left.
	order []string
	// owed holds the pods of left that are evicted and gone, by controller, the oldest first.
	owed map[types.UID][]*leaver
}

// leaver is a pod that is gone, is being deleted, or was evicted. It is owed a replacement once both its eviction and
// its end are known.
type leaver struct {
	uid           string
	owner         types.UID
	at            time.Time
	evicted, kept bool
}

func newSuccession() *succession {
	return &succession{left: map[string]*leaver{}, owed: map[types.UID][]*leaver{}}
}

// of returns the leaver of a pod, a new one if there is none.
func (s *succession) of(uid string) *leaver {
	if l, known := s.left[uid]; known {
		return l
	}
	if len(s.order) >= maxLeft {
		s.forget(s.order[0])
		s.order = s.order[1:]
	}
	l := &leaver{uid: uid}
	s.left[uid], s.order = l, append(s.order, uid)
	return l
}

func (s *succession) forget(uid string) {
	l, known := s.left[uid]
	if !known {
		return
	}
	delete(s.left, uid)
	rest := slices.DeleteFunc(s.owed[l.owner], func(other *leaver) bool { return other == l })
	if len(rest) == 0 {
		delete(s.owed, l.owner)
		return
	}
	s.owed[l.owner] = rest
}

// went records pods of controllers that are being deleted or gone, as the facts show at a time.
func (s *succession) went(changes []state.PodChange, at time.Time) {
	for _, c := range changes {
		if c.Before == nil || c.Before.NodeName == "" || c.Before.Deleting || c.After != nil && !c.After.Deleting {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(c.Before.Template)
		if owner == nil {
			continue
		}
		l := s.of(c.Before.UID)
		l.owner, l.at = owner.UID, at
		s.owe(l)
	}
}

// decided records evictions.
func (s *succession) decided(d *events.Decision) {
	switch {
	case d.Kind == events.DecisionEvict && d.LedgerRevision > 0:
		s.of(d.Pod.UID).kept = true
	case d.Kind == events.DecisionEvicted:
		l := s.of(d.Pod.UID)
		if !l.evicted {
			l.evicted = true
			s.owe(l)
		}
	}
}

func (s *succession) owe(l *leaver) {
	if l.evicted && !l.kept && l.owner != "" {
		s.owed[l.owner] = append(s.owed[l.owner], l)
	}
}

// replacedBy returns the UID of the pod that p, first seen at seen, replaces; empty for none.
func (s *succession) replacedBy(p *state.Pod, seen time.Time) string {
	if len(s.owed) == 0 {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(p.Template)
	if owner == nil {
		return ""
	}
	for _, l := range s.owed[owner.UID] {
		if l.uid != p.UID && !seen.Before(l.at) {
			s.forget(l.uid)
			return l.uid
		}
	}
	return ""
}

// Went records what the facts show of pods at a time. It costs nothing unless traces are recorded.
func (r *Reporter) Went(changes []state.PodChange, at time.Time) {
	if telemetry.Tracing() {
		r.succession.went(changes, at)
	}
}

// Decided handles records of the decisions log.
func (r *Reporter) Decided(decisions []events.SequencedDecision) {
	if !telemetry.Tracing() {
		return
	}
	for i := range decisions {
		r.succession.decided(&decisions[i].Decision)
	}
}

// succeeds adds a span to the trace of an evicted pod when its replacement is bound, and returns the links back from
// the replacement.
func (r *Reporter) succeeds(ctx context.Context, e decide.PodBound) []trace.Link {
	victim := r.succession.replacedBy(e.Pod, e.Seen)
	if victim == "" {
		return nil
	}
	if telemetry.TracesPod(victim) {
		_, span := telemetry.StartPodSpan(ctx, r.tracer, telemetry.PodSpan{
			UID: victim, Name: "replaced", Start: e.Bound,
			Links: []trace.Link{telemetry.PathLink(ctx, e.Pod.UID, "replacement")},
		})
		span.End(trace.WithTimestamp(e.Bound))
	}
	return []trace.Link{telemetry.PathLink(ctx, victim, "replaced")}
}
