package podstatus

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// condition is one pod's PodScheduled=False that is being written. The latest decision wins. At most one patch is in
// flight; a newer decision waits for it and then replaces it.
//
// Order: event → patch → DecisionCondition. A crash before the patch leaves the decision in the log. Every other
// binder remembers it until it sees its DecisionCondition, and the binder that takes over the partition writes it. A
// crash after the patch leads to a second attempt that finds nothing to change.
type condition struct {
	// pending is the latest decision; nil once it has been handled.
	pending *events.Decision
	// sent is the decision of the patch in flight, and patch the condition that it writes.
	sent  *events.Decision
	patch corev1.PodCondition
	// written is the condition of the last patch, and writtenRV the pod's resourceVersion after it; they count until
	// the facts have reached that version.
	written   *corev1.PodCondition
	writtenRV uint64

	// nomination is the nomination whose node name the patch in flight writes, or clears, as well, if any. cleared means
	// that the last patch has cleared the name, which counts like written.
	nomination      *nomination
	clears, cleared bool
	// read is the pod as the API server had it when a patch that clears the name lost to another change of the pod; nil
	// if none has. It is at least as new as the version that the latest decision used, unless the API server has lost
	// that one.
	read *state.Pod

	op effect.OpID
	basis.Pacing
}

// Require handles a decision that requires a condition.
func (s *Writer) Require(d events.Decision) {
	w, ok := s.conditions[d.Pod.UID]
	if !ok {
		if !s.Holds(d.Pod.UID) && len(s.conditions) >= s.Limits.Foreign {
			s.dropped++
			return
		}
		w = &condition{Pacing: basis.Pacing{Retry: s.Limits.Retry}}
		s.conditions[d.Pod.UID] = w
	}
	w.reportSuperseded(s, d)
	w.pending = &d
	w.forgetOlder(d)
	w.advance(s)
}

// reportSuperseded emits the event of a pending decision that a place was given up, before another decision takes its
// turn: that decision does not say what has become of the place.
func (w *condition) reportSuperseded(s *Writer, by events.Decision) {
	d := w.pending
	if d == nil || d.Kind != events.DecisionWithdrawn || d.Token == by.Token || !s.MayAct(d.Pod.UID) {
		return
	}
	if reported := w.sent != nil && w.sent.Token == d.Token && w.sent.Kind == d.Kind; !reported {
		s.emitEvent(*d)
	}
}

// forgetOlder forgets the pod that was read if a decision has used a later version.
func (w *condition) forgetOlder(d events.Decision) {
	if w.read != nil && w.read.ResourceVersion < d.PodResourceVersion {
		w.read = nil
	}
}

// Settled records that another binder has handled a decision.
func (s *Writer) Settled(d events.Decision) {
	w, ok := s.conditions[d.Pod.UID]
	if ok && d.Actor != s.ID && w.pending != nil && w.pending.Token == d.Token {
		w.pending = nil
	}
}

// advance writes the condition of the latest decision, if it is time. It waits while facts or ledger are older than the
// decision, drops it if the pod is bound or gone, and settles it without a write if the pod has been placed since or
// the status shows all of it already.
func (w *condition) advance(s *Writer) {
	if w.pending == nil || w.op != 0 || s.Facts.Cluster == nil || s.Now.Before(w.Due) || !s.MayAct(w.pending.Pod.UID) {
		return
	}
	d := *w.pending
	p, known, _ := s.Pod(d.Pod.UID, 0)
	switch {
	case !known && (s.Facts.Sequence < d.FactSequence || !s.Facts.PodProgressKnown):
		return // the decision used later facts than this binder has, or the facts are being republished
	case aboutHold(d) && s.Ledger.Revision() < d.LedgerRevision:
		return // its hold, or the end of it, which is written along with it, is about to show
	case !known || w.newest(p).NodeName != "":
		w.pending = nil // deleted or bound: the condition is no longer needed
		return
	}
	if basis.BindFailed(d) && s.reservations.Releasing(d) {
		return // a write now would conflict with the fence
	}
	w.report(s, d)
	if s.reservations.Placed(d.Pod.UID) {
		// A later attempt has placed the pod. A patch now would move the resourceVersion that its bind relies on (the
		// binder's own patches come before podRV is taken, or not at all).
		w.settle(s, d, max(p.ResourceVersion, w.writtenRV), "")
		return
	}
	current, rv := w.current(p)
	w.patch = conditionFor(d, p, current, s.Now)
	if s.Limits.Marks.Mode == basis.MarksWrite && len(d.Withheld) > 0 {
		// Autoscalers consider no pod with another reason, and the marks on the nodes show them that it fits nowhere.
		w.patch.Reason = corev1.PodReasonUnschedulable
	}
	nominated, shown := nominatedByPlugin(d, p), w.newest(p)
	clears := w.mustClear(s, d, shown)
	if current != nil && sameCondition(*current, w.patch) && nominated == "" && !clears {
		w.settle(s, d, rv, "")
		return
	}
	w.sent, w.pending = &d, nil
	w.op = s.begin(w)
	if w.clears = clears; clears {
		w.clearWith(s, d)
	}
	s.Emit(effect.PatchCondition{
		Op: w.op, Pod: d.Pod, Condition: w.patch, ClearNomination: clears,
		NominatedNodeName: cmp.Or(w.nominate(s, d, p), nominated), ResourceVersion: w.clearedAt(d, shown),
	})
}

// aboutHold reports whether a decision begins or ends a hold.
func aboutHold(d events.Decision) bool {
	return d.Kind == events.DecisionNominated || d.Kind == events.DecisionWithdrawn
}

// nominatedByPlugin returns the node that a plugin has nominated for a pod that fits nowhere, if the pod's status
// does not show it yet; else "". Nothing is held there.
func nominatedByPlugin(d events.Decision, p *state.Pod) string {
	if d.Kind != events.DecisionUnplaceable || d.NodeName == p.Status().NominatedNodeName {
		return ""
	}
	return d.NodeName
}

// nominate returns the node name for the patch in flight to write as well, if a place is held for the pod and the
// name has yet to be written; else "".
func (w *condition) nominate(s *Writer, d events.Decision, p *state.Pod) string {
	m, ok := s.nominations[d.Pod.UID]
	if !ok || !m.joinsCondition(s, d, p) {
		return ""
	}
	w.nomination = m
	m.op = w.op
	m.sent = m.node
	return m.node
}

// report emits the event of a decision once: a decision that is retried after a failed patch has been reported
// already.
func (w *condition) report(s *Writer, d events.Decision) {
	if w.sent != nil && w.sent.Token == d.Token {
		return
	}
	s.emitEvent(d)
}

// emitEvent emits the event of a decision.
func (s *Writer) emitEvent(d events.Decision) {
	reason := "FailedScheduling"
	if d.Kind == events.DecisionWithdrawn {
		// Events with the same reason become a series, which keeps the first note.
		reason = "NominationWithdrawn"
	}
	s.Emit(effect.Report{
		Pod: d.Pod, SchedulerName: d.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Scheduling", Note: d.Message,
	})
}

// current returns the condition as this binder knows it, and the pod's resourceVersion.
func (w *condition) current(p *state.Pod) (*corev1.PodCondition, uint64) {
	if w.written != nil && p.ResourceVersion < w.writtenRV {
		return w.written, w.writtenRV
	}
	conditions := p.Object().Status.Conditions
	for i := range conditions {
		if c := &conditions[i]; c.Type == corev1.PodScheduled {
			return c, p.ResourceVersion
		}
	}
	return nil, p.ResourceVersion
}

// conditionFor returns the condition that a decision requires. As upstream, the transition time moves only when the
// status does, and observedGeneration is the known generation of the pod.
func conditionFor(d events.Decision, p *state.Pod, current *corev1.PodCondition, now time.Time) corev1.PodCondition {
	reason := corev1.PodReasonSchedulerError
	switch d.Kind {
	case events.DecisionUnplaceable, events.DecisionNominated, events.DecisionWithdrawn:
		reason = corev1.PodReasonUnschedulable
	}
	transition := metav1.NewTime(now)
	if current != nil && current.Status == corev1.ConditionFalse {
		transition = current.LastTransitionTime
	}
	return corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: d.Message,
		ObservedGeneration: p.Generation(), LastTransitionTime: transition,
	}
}

// sameCondition reports whether a write would change nothing but times.
func sameCondition(a, b corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration
}

// settle publishes that the decision's condition is written, with the pod's resourceVersion.
func (w *condition) settle(s *Writer, d events.Decision, rv uint64, problem string) {
	w.pending, w.sent = nil, nil
	w.read = nil
	w.Pacing = basis.Pacing{Retry: s.Limits.Retry}
	s.Publish(events.Decision{
		Kind: events.DecisionCondition, Pod: d.Pod, SchedulerName: d.SchedulerName,
		Attempt: d.Attempt, Token: d.Token, PodResourceVersion: rv, Message: problem, TraceParent: d.TraceParent,
	})
}

// answered handles the end of the patch. A decision that has arrived in the meantime is handled next; without one, the
// same is tried again if the outcome is unknown.
func (w *condition) answered(s *Writer, in effect.Input) {
	w.op = 0
	if w.sent == nil {
		return
	}
	a, ok := in.(effect.Answered)
	if !ok { // NotStarted
		if w.nomination != nil {
			w.nomination.op, w.nomination = 0, nil
		}
		if w.pending == nil {
			w.pending = w.sent
		}
		w.advance(s)
		return
	}
	if m := w.nomination; m != nil {
		w.nomination = nil
		m.written(s, a)
	}
	d := *w.sent
	newer := w.pending
	if a.Result == effect.Conflict {
		w.read = a.Pod
		if newer != nil {
			w.forgetOlder(*newer)
		}
	}
	switch a.Result {
	case effect.Done:
		written := w.patch
		w.written, w.writtenRV = &written, a.ResourceVersion
		w.cleared = w.clears
		w.settle(s, d, a.ResourceVersion, "")
	case effect.Gone:
		w.sent = nil
	case effect.Refused:
		// A retry would not help, and the pod must not wait for a condition it cannot get.
		p, known, _ := s.Pod(d.Pod.UID, 0)
		if known {
			w.settle(s, d, p.ResourceVersion, a.Problem)
		}
		w.sent = nil
	default:
		w.Pause(s.Now)
		if newer == nil {
			w.pending = &d
			return
		}
	}
	w.pending = newer
	w.advance(s)
}

// obsolete reports whether nothing about the condition can matter any more.
func (w *condition) obsolete(s *Writer, uid string) bool {
	if w.op != 0 {
		return false
	}
	p, known, _ := s.Pod(uid, 0)
	switch {
	case s.Facts.Cluster == nil:
		return false
	case w.pending != nil:
		ended := !known || p.NodeName != ""
		return ended && s.Facts.Sequence >= w.pending.FactSequence
	default:
		return w.written == nil || !known || p.ResourceVersion >= w.writtenRV
	}
}
