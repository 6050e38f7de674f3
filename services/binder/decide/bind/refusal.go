package bind

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// refusal is a fence's record of its write while the API server refuses it (because of a missing permission,
// an admission webhook or policy, or a pod that would be too large) or fails to carry it out (for instance because it
// cannot reach a webhook). It ends with a different answer, or with the pod: the entry of a pod that is deleted or
// bound leaves by hand-over, without the write.
//
// An alternative was rejected: to read the pod instead, and to release when another process has moved its
// resourceVersion since the mark. A bind in flight may carry a version from after the mark, namely the one that its
// binder's own write to the pod's status returned (commit.writeMappings). And the pod's history, which the audit reads,
// would not show the fence.
type refusal struct {
	// times counts refusals and failures in a row since first. reportedAt is when they were last reported to the log and
	// the pod's owner. pause paces the tries, except for failures that may be transient, which are retried as if
	// there were no answer.
	times             int
	first, reportedAt time.Time
	pause             wait.Backoff
}

// changeRefused handles a refusal, or a failure of the API server. It reports it after some repetitions, and again
// from time to time.
func (r *reservation) changeRefused(b *Reservations, in effect.Answered) {
	f := &r.fence.refusal
	if f.times == 0 {
		f.first, f.pause = b.Now, b.Limits.Refusals.Pause
	}
	f.times++
	if in.Failed && b.Now.Sub(f.first) < b.Limits.Refusals.Failing {
		r.Pause(b.Now)
		return
	}
	r.Due = b.Now.Add(f.pause.Step())
	if f.times < b.Limits.Refusals.Tell ||
		!f.reportedAt.IsZero() && b.Now.Sub(f.reportedAt) < b.Limits.Refusals.Again {
		return
	}
	f.reportedAt = b.Now
	b.fencesRefused[r.key] = r
	d := r.decision(events.DecisionFenceRefused)
	d.Message = in.Problem
	b.Publish(d)
	b.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedRelease", Action: "Releasing",
		Note: fmt.Sprintf("The reservation on node %s cannot be taken back (%s), so that the pod is tried nowhere "+
			"else: the API server refuses the binder's write again and again. Allow it (roles, admission webhooks "+
			"and policies, size of the pod), or delete the pod. Refused: %s", r.nodeName, r.fenceReason, in.Problem),
	})
}

// changeAllowed forgets refusals: the write has succeeded, or its object is gone.
func (r *reservation) changeAllowed(b *Reservations) {
	r.fence.refusal = refusal{}
	delete(b.fencesRefused, r.key)
}

// ForgetRefused drops from fencesRefused the reservations that have ended without the write, and those that are now
// another binder's.
func (b *Reservations) ForgetRefused() {
	maps.DeleteFunc(b.fencesRefused, func(key basis.Attempt, r *reservation) bool {
		if !r.removed && !r.settled && r.entry.State == ledger.Fencing && b.Holds(key.Pod) {
			return false
		}
		r.fence.refusal = refusal{}
		return true
	})
}

// bindRefused reports to the pod's owner why it is not bound where it was placed, as kube-scheduler does when a bind
// fails. The place is taken back, and the pod is tried again.
func (r *reservation) bindRefused(b *Reservations, problem string) {
	r.fenceReason = "bind refused: " + problem
	b.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedScheduling", Action: "Scheduling",
		Note: fmt.Sprintf("binding to node %s was refused: %s", r.nodeName, problem),
	})
	r.advance(b)
}
