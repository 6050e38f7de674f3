package commit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

const (
	// finishAfter is how long an event must not have been repeated for its series to end. refreshEvery is how often a
	// series is written again, so that the API server keeps it. Both are client-go's (tools/events).
	finishAfter  = 6 * time.Minute
	refreshEvery = 30 * time.Minute
)

// series has the events that may be repeated. Its rules are those of client-go's broadcaster
// (tools/events/event_broadcaster.go): the first event is created, the second turns it into a series of two, and
// further ones are counted here. The count is written when the series is refreshed and when it ends.
//
// Unlike there, an event may have waited before it gets here (see pace), so that its own time does not show how recent
// it is: recent.added does.
type series map[eventKey]*recent

// recent is an event that may be repeated.
type recent struct {
	*eventsv1.Event
	// added is when the event, or its last repetition, was added.
	added time.Time
}

// eventKey is the same for an event and its repetitions.
type eventKey struct {
	kind, action, reason, controller string
	regarding, related               corev1.ObjectReference
}

// keyOf returns the key of an event. The note is not part of it, so a series keeps the note of its first event.
func keyOf(e *eventsv1.Event) eventKey {
	k := eventKey{
		kind: e.Type, action: e.Action, reason: e.Reason, controller: e.ReportingController, regarding: e.Regarding,
	}
	if e.Related != nil {
		k.related = *e.Related
	}
	return k
}

// add adds an event, and returns what must be written for it; nil for nothing.
// The result is a copy, because a writer uses it while later repetitions change the original.
func (s series) add(e *eventsv1.Event, now time.Time) *eventsv1.Event {
	known, repeated := s[keyOf(e)]
	if !repeated {
		s[keyOf(e)] = &recent{Event: e, added: now}
		return e.DeepCopy()
	}
	known.added = now
	if known.Series != nil {
		known.Series.Count++
		known.Series.LastObservedTime = e.EventTime
		return nil
	}
	known.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: e.EventTime}
	return known.DeepCopy()
}

// all returns all series as they must be written, in the order of their last events.
func (s series) all() []*eventsv1.Event {
	var out []*eventsv1.Event
	for _, e := range s {
		if e.Series != nil {
			out = append(out, e.DeepCopy())
		}
	}
	slices.SortFunc(out, func(a, b *eventsv1.Event) int {
		return cmp.Or(a.Series.LastObservedTime.Compare(b.Series.LastObservedTime.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// finish drops the events that have not been repeated since a time, and returns their series as they must be written.
func (s series) finish(since time.Time) []*eventsv1.Event {
	ended := series{}
	maps.DeleteFunc(s, func(k eventKey, e *recent) bool {
		if !e.added.Before(since) {
			return false
		}
		ended[k] = e
		return true
	})
	return ended.all()
}
