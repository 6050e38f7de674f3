package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// requests is what the controller that migrates pods knows: which of them it was asked to migrate. A webhook answers
// the evictions of such pods, and informs it.
type requests map[string]bool

// requestable makes some pods of a run about migrations those whose eviction can only be requested.
func (c *cluster) requestable(w *world, p *corev1.Pod) {
	if c.family == migrated && w.chance(90) {
		annotate(p, state.AnnotationRequestEvictOnly, "yes")
	}
}

// byRequest reports whether the eviction of a pod can only be requested.
func byRequest(p *corev1.Pod) bool { return p.Annotations[state.AnnotationRequestEvictOnly] != "" }

// request is the webhook of pods/eviction: it denies the request, and the controller learns of it. A dry run has no
// effect, and the same answer.
func (w *world) request(e effect.Evict, p *corev1.Pod) effect.Answered {
	if e.DryRun {
		w.note("S21", "pod %s has a dry run, which says nothing of a request", p.Name)
	} else {
		w.report.Requests++
		w.requests[string(p.UID)] = true
		w.oracle.requested(p)
	}
	return effect.Answered{Result: effect.Throttled, Intercepted: true, Problem: "Eviction triggered evacuation"}
}

// requested is S21: a request is made under a claim that is Evicting, and once for each.
func (o *oracle) requested(p *corev1.Pod) {
	uid := string(p.UID)
	_, claim, ok := o.truth.Plans().Victim(uid)
	switch {
	case !ok || claim.State != ledger.Evicting:
		o.w.note("S21", "pod %s was requested, and the ledger has no claim on it that is Evicting (%t, %s)",
			uid, ok, claim.State)
	case o.asked[uid] == claim.Plan:
		o.w.note("S21", "pod %s was requested twice under plan %s", uid, claim.Plan)
	}
	o.asked[uid] = claim.Plan
}

// forgetRequests forgets the requests whose claims have ended, or have been given back.
func (o *oracle) forgetRequests() {
	maps.DeleteFunc(o.asked, func(uid, plan string) bool {
		_, claim, ok := o.truth.Plans().Victim(uid)
		return !ok || claim.Plan != plan || claim.State != ledger.Evicting
	})
}

// migrate models the controller: it takes requests on or does not, carries migrations out, and gives some of them up. A
// migration ends with the deletion of the pod.
func (c *cluster) migrate(w *world, percent int) {
	for _, uid := range slices.Sorted(maps.Keys(w.requests)) {
		p, ok := w.api.pod(uid)
		if !ok || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
			delete(w.requests, uid)
			continue
		}
		_, works := p.Annotations[state.AnnotationEvictionInProgress]
		switch {
		case !w.chance(percent):
		case w.chance(25):
			delete(w.requests, uid)
			w.api.changePod(uid, func(p *corev1.Pod) bool {
				delete(p.Annotations, state.AnnotationEvictionInProgress)
				return works
			})
		case !works:
			w.api.changePod(uid, func(p *corev1.Pod) bool { return annotate(p, state.AnnotationEvictionInProgress, "yes") })
		default:
			w.report.Migrated++
			w.api.delete(uid)
		}
	}
}
