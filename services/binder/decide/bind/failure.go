package bind

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// bindRefused reports to the pod's owner why it is not bound where it was placed, as kube-scheduler does when a bind
// fails. The place is taken back, and the pod is tried again.
func (r *reservation) bindRefused(env *environment, problem string) {
	r.fence.reason = "bind refused: " + problem
	r.reportFailure(env, fmt.Sprintf("binding to node %s was refused: %s", r.nodeName, problem))
	r.advance(env)
}

// expire begins the fence of an entry that has not been bound in time. It is reported to the pod's owner if volumes or
// devices have been requested, as kube-scheduler does when a plugin's PreBind times out. Otherwise the API server, or
// this binder, is too slow, and the next attempt is likely to succeed.
func (r *reservation) expire(env *environment) {
	within := r.bindDeadline(env.Base, r.requested)
	r.fence.reason = fmt.Sprintf("not bound within %v", within)
	if r.requested {
		r.reportFailure(env, fmt.Sprintf("binding to node %s was given up: volumes or devices of the pod were not ready "+
			"within %v", r.nodeName, within))
	}
}

// reportFailure emits the event of a bind that failed.
func (r *reservation) reportFailure(env *environment, note string) {
	env.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedScheduling", Action: "Scheduling", Note: note,
	})
}
