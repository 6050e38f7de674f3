package podgroups

import (
	"maps"
	"slices"
	"strings"
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// reasonScheduled is the reason of the condition when it is True. Source: submitPodGroupAlgorithmResult; the API has no
// constant for it.
const reasonScheduled = "Scheduled"

// unschedulable is the beginning of the message when the condition is False. Source: errPodGroupUnschedulable.
const unschedulable = "pod group is unschedulable"

// searchEvery is how often all groups without the condition are looked at. A decision about a member has its group
// looked at within basis.RoundEvery.
const searchEvery = 10 * time.Second

// Writer writes the conditions of PodGroups.
type Writer struct {
	*basis.Base
	// groups are the groups with something to write, by key.
	groups map[string]*group
	// searchedAt is when all groups were last looked at, and roundAt when those with something to write were.
	searchedAt, roundAt time.Time
}

// New returns a writer that knows of no groups.
func New(base *basis.Base) *Writer { return &Writer{Base: base, groups: map[string]*group{}} }

// Seen notes a decision about a pod, which may be a member of a group.
func (w *Writer) Seen(d events.Decision) {
	p, known, _ := w.Pod(d.Pod.UID, 0)
	if !known || p.PodGroup() == "" {
		return
	}
	obj := w.find(p.Namespace, p.PodGroup())
	if obj == nil || scheduled(obj) {
		return
	}
	g := w.group(obj)
	switch d.Kind {
	case events.DecisionUnplaceable:
		message := d.Message
		if !strings.HasPrefix(message, unschedulable) {
			message = unschedulable + ": " + message
		}
		ofOnePod := g.message != "" && !slices.Contains(d.Plugins, names.GangScheduling)
		// Of the pods of a gang, one has the whole message, and the others the beginning of it.
		if ofOnePod || strings.HasPrefix(g.message, message) || strings.HasPrefix(shown(obj), message) {
			return
		}
		g.message = message
		g.reason = schedulingv1alpha2.PodGroupReasonUnschedulable
	case events.DecisionFailed:
		g.message = d.Message
		g.reason = schedulingv1alpha2.PodGroupReasonSchedulerError
	}
}

// shown returns the message of the condition of a group; empty for none.
func shown(obj *schedulingv1alpha2.PodGroup) string {
	if c := meta.FindStatusCondition(obj.Status.Conditions, schedulingv1alpha2.PodGroupScheduled); c != nil {
		return c.Message
	}
	return ""
}

// find returns the object of a group as the facts show it; nil for none.
func (w *Writer) find(namespace, name string) *schedulingv1alpha2.PodGroup {
	if w.Facts.Group == nil {
		return nil
	}
	return w.Facts.Group(namespace, name)
}

// group returns what is to be written of a group.
func (w *Writer) group(obj *schedulingv1alpha2.PodGroup) *group {
	key := obj.Namespace + "/" + obj.Name
	g := w.groups[key]
	if g == nil || g.uid != string(obj.UID) {
		g = &group{
			namespace: obj.Namespace, name: obj.Name, uid: string(obj.UID), Pacing: basis.Pacing{Retry: w.Limits.Retry},
		}
		w.groups[key] = g
	}
	return g
}

// Advance looks at the groups with something to write, at most once in basis.RoundEvery, and at all others every
// searchEvery. Groups follow in the order of their names.
func (w *Writer) Advance() {
	if w.Idle() || w.Facts.Cluster == nil || w.Facts.Groups == nil || w.Now.Sub(w.roundAt) < basis.RoundEvery {
		return
	}
	w.roundAt = w.Now
	if w.Now.Sub(w.searchedAt) >= searchEvery {
		w.searchedAt = w.Now
		for obj := range w.Facts.Groups() {
			if !scheduled(obj) && w.MayAct(string(obj.UID)) && w.hasPlace(obj) {
				w.group(obj)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.groups)) {
		w.groups[key].advance(w)
	}
}

// hasPlace reports whether a member of a group is bound, or has a reservation that can be bound.
func (w *Writer) hasPlace(obj *schedulingv1alpha2.PodGroup) bool {
	for p := range w.Facts.Members(obj.Namespace, obj.Name) {
		if p.NodeName != "" && !p.Terminal && !p.Deleting {
			return true
		}
		_, e, reserved := w.Ledger.Entry(p.UID)
		if reserved && e.Role == ledger.RoleReservation && e.State == ledger.Committed {
			return true
		}
	}
	return false
}

// scheduled reports whether the condition of a group is True.
func scheduled(obj *schedulingv1alpha2.PodGroup) bool {
	return meta.IsStatusConditionTrue(obj.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
}

// group is a PodGroup whose condition may have to be written. At most one write of it is in flight.
type group struct {
	namespace, name, uid string
	// reason and message are those of the last decision that a member cannot be placed; empty for none.
	reason, message string
	// op is the write in flight; 0 for none.
	op effect.OpID
	basis.Pacing
}

// advance requests the write of the condition, if the facts do not show it, for the version that they show: a later one
// may have the condition, which does not go back even if the members have gone since. A group that needs none is
// forgotten, and so is one that another binder writes.
func (g *group) advance(w *Writer) {
	obj := w.find(g.namespace, g.name)
	switch {
	case g.op != 0 || w.Now.Before(g.Due):
		return
	case obj == nil || string(obj.UID) != g.uid || scheduled(obj) || !w.Holds(g.uid):
		delete(w.groups, g.namespace+"/"+g.name)
		return
	}
	want := metav1.Condition{
		Type: schedulingv1alpha2.PodGroupScheduled, Status: metav1.ConditionFalse, Reason: g.reason, Message: g.message,
		ObservedGeneration: obj.Generation,
	}
	switch {
	case w.hasPlace(obj):
		want.Status = metav1.ConditionTrue
		want.Reason = reasonScheduled
		want.Message = ""
	case g.reason == "" || shows(obj, want):
		delete(w.groups, g.namespace+"/"+g.name)
		return
	}
	if !w.MayAct(g.uid) {
		return
	}
	want.LastTransitionTime = transition(obj, want, w.Now)
	g.op = w.Begin(work{g, w})
	w.Emit(effect.PatchGroup{
		Op: g.op, Namespace: g.namespace, Name: g.name, UID: g.uid, ResourceVersion: obj.ResourceVersion, Condition: want,
	})
}

// shows reports whether an object has a condition already, whenever that came.
func shows(obj *schedulingv1alpha2.PodGroup, want metav1.Condition) bool {
	c := meta.FindStatusCondition(obj.Status.Conditions, want.Type)
	return c != nil && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}

// transition returns since when a condition has its status.
func transition(obj *schedulingv1alpha2.PodGroup, want metav1.Condition, now time.Time) metav1.Time {
	if c := meta.FindStatusCondition(obj.Status.Conditions, want.Type); c != nil && c.Status == want.Status {
		return c.LastTransitionTime
	}
	return metav1.NewTime(now)
}

// work is a group that waits for the answer to its effect.
type work struct {
	g *group
	w *Writer
}

// Answered implements effect.Machine. The facts show the outcome; until then nothing is written again.
func (x work) Answered(in effect.Input) {
	x.g.op = 0
	a, ok := in.(effect.Answered)
	if !ok {
		return // NotStarted: it is looked at again
	}
	switch a.Result {
	case effect.Done, effect.Gone:
		x.g.Retry = x.w.Limits.Retry
		x.g.Due = x.w.Now.Add(x.w.Limits.Idle)
	default:
		x.g.Pause(x.w.Now)
	}
}

// Waiting counts the groups with something to write.
func (w *Writer) Waiting() int { return len(w.groups) }
