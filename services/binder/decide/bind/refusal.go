package bind

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
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

// refused handles a refusal of the fence's write, or a failure of the API server. It reports it after some repetitions,
// and again from time to time.
func (f *fence) refused(env *environment, in effect.Answered) {
	t, r := f.task, &f.refusal
	if r.times == 0 {
		r.first, r.pause = env.Now, env.Limits.Refusals.Pause
	}
	r.times++
	if in.Failed && env.Now.Sub(r.first) < env.Limits.Refusals.Failing {
		t.Pause(env.Now)
		return
	}
	t.Due = env.Now.Add(r.pause.Step())
	if r.times < env.Limits.Refusals.ReportAfter ||
		r.reported() && env.Now.Sub(r.reportedAt) < env.Limits.Refusals.ReportEvery {
		return
	}
	r.reportedAt = env.Now
	d := t.decision(events.DecisionFenceRefused)
	d.Message = in.Problem
	env.Publish(d)
	env.Emit(effect.Report{
		Pod: t.ref(), SchedulerName: t.entry.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedRelease", Action: "Releasing",
		Note: fmt.Sprintf("The reservation on node %s cannot be taken back (%s), so that the pod is tried nowhere "+
			"else: the API server refuses the binder's write again and again. Allow it (roles, admission webhooks "+
			"and policies, size of the pod), or delete the pod. Refused: %s", t.nodeName, f.reason, in.Problem),
	})
}

// reported reports whether the refusal has been reported, and goes on.
func (r *refusal) reported() bool { return !r.reportedAt.IsZero() }
