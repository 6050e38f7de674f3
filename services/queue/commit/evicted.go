package commit

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// maxDeparted bounds the pods whose replacements are tracked; the oldest are forgotten first. That many pods leave
// within minutes only when whole clusters are emptied.
const maxDeparted = 4096

// evictedPods finds the pods that replace those which Berth has evicted, to link their traces: a replacement is a pod
// that the same controller has created since, one for each. It ignores pods for whose replacement a place is kept:
// the shard that gives the place away knows both pods.
//
// The queue's own clock decides which pod came later: the watch of pods reports the end of a pod before the pod that
// a controller creates for it.
type evictedPods struct {
	byUID map[string]*departedPod
	// order holds the UIDs of byUID, the oldest first, and some that have been removed from byUID.
	order []string
	// awaiting holds the pods of byUID that are evicted and gone, by controller, the oldest first.
	awaiting map[types.UID][]*departedPod
}

// departedPod is a pod that is gone, is being deleted, or was evicted. It awaits a replacement once both its
// eviction and its end are known.
type departedPod struct {
	uid                string
	owner              types.UID
	at                 time.Time
	evicted, placeKept bool
}

// newEvictedPods returns a record without pods.
func newEvictedPods() *evictedPods {
	return &evictedPods{byUID: map[string]*departedPod{}, awaiting: map[types.UID][]*departedPod{}}
}

// get returns the record of a pod, a new one if there is none.
func (s *evictedPods) get(uid string) *departedPod {
	if l, known := s.byUID[uid]; known {
		return l
	}
	if len(s.order) >= maxDeparted {
		s.forget(s.order[0])
		s.order = s.order[1:]
	}
	l := &departedPod{uid: uid}
	s.byUID[uid], s.order = l, append(s.order, uid)
	return l
}

// forget drops a pod, from the pods that await a replacement as well.
func (s *evictedPods) forget(uid string) {
	l, known := s.byUID[uid]
	if !known {
		return
	}
	delete(s.byUID, uid)
	rest := slices.DeleteFunc(s.awaiting[l.owner], func(other *departedPod) bool { return other == l })
	if len(rest) == 0 {
		delete(s.awaiting, l.owner)
		return
	}
	s.awaiting[l.owner] = rest
}

// podsEnded records pods of controllers that are being deleted or gone, as the facts show at a time.
func (s *evictedPods) podsEnded(changes []state.PodChange, at time.Time) {
	for _, c := range changes {
		if c.Before == nil || c.Before.NodeName == "" || c.Before.Deleting || c.After != nil && !c.After.Deleting {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(c.Before.Template)
		if owner == nil {
			continue
		}
		l := s.get(c.Before.UID)
		l.owner, l.at = owner.UID, at
		s.await(l)
	}
}

// decided records evictions.
func (s *evictedPods) decided(d *events.Decision) {
	switch {
	case d.Kind == events.DecisionEvict && d.LedgerRevision > 0:
		s.get(d.Pod.UID).placeKept = true
	case d.Kind == events.DecisionEvicted:
		l := s.get(d.Pod.UID)
		if !l.evicted {
			l.evicted = true
			s.await(l)
		}
	}
}

// await makes a pod await its replacement once both its eviction and its end are known. Either may be known first: the
// decision is in one log, the end of the pod in another.
func (s *evictedPods) await(l *departedPod) {
	if l.evicted && !l.placeKept && l.owner != "" {
		s.awaiting[l.owner] = append(s.awaiting[l.owner], l)
	}
}

// replacedBy returns the UID of the pod that p, first seen at seen, replaces; empty for none.
func (s *evictedPods) replacedBy(p *state.Pod, seen time.Time) string {
	if len(s.awaiting) == 0 {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(p.Template)
	if owner == nil {
		return ""
	}
	for _, l := range s.awaiting[owner.UID] {
		if l.uid != p.UID && !seen.Before(l.at) {
			s.forget(l.uid)
			return l.uid
		}
	}
	return ""
}
