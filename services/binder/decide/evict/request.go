package evict

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// request is what a removal knows of a pod whose eviction can only be requested, because another controller answers
// with something gentler (state.AnnotationRequestEvictOnly). Such a pod is read, but not dry-run, before its eviction
// is sent: its budget may allow nothing at any time, and the request spends nothing.
//
// The eviction is sent once for each claim. A refusal that another controller may have caused
// (effect.Answered.Intercepted), an answer that is lost, and a mark by another binder all begin a wait. It ends
//
//   - when the pod has left: the eviction is reported as carried out;
//   - when the controller removes state.AnnotationEvictionInProgress, or the pod can be evicted like any other: the
//     request was turned down;
//   - when no controller has shown that it has taken the request on within Limits.RequestFor.
//
// The last two are refusals. The claim is then given back as declined (ledger.Entry.Declined): no binder makes another
// request for it while the pod is such a one. While the removal waits, the claim stays Evicting, so that no other plan
// or order has the pod, and the place for which it leaves is kept. Source: sigs.k8s.io/descheduler
// pkg/descheduler/evictions, the cache of EvictionsInBackground. That one forgets at a restart that it has asked; here
// the claim in the ledger shows it.
type request struct {
	// read is the pod as it was last read; nil if it was not.
	read *state.Pod
	// made means that an eviction may have reached the API server. since is when the wait began, zero before it;
	// taken means that the facts have since shown that a controller has taken the request on. over means that the
	// wait has ended without success.
	made, taken, over bool
	since             time.Time
}

// annotations are what the newest known version of the pod shows: whether its eviction can only be requested, and
// whether a controller is carrying such a request out. Without known, the pod is not known.
type annotations struct{ only, inProgress, known bool }

// annotationsOf returns the annotations of the victim. A pod that its profile deletes is like one without any.
func annotationsOf(v *Evictor, r *removal) (seen annotations) {
	var p *state.Pod
	p, seen.known, _ = v.Pod(r.claim.PodUID, r.claim.PodRV)
	if read := r.request.read; read != nil && (!seen.known || p.ResourceVersion < read.ResourceVersion) {
		p, seen.known = read, true
	}
	if seen.known && !r.ignoresBudgets(v) {
		seen.only, seen.inProgress = p.EvictionRequest()
	}
	return seen
}

// requestOnly reports whether the victim's eviction can only be requested.
func requestOnly(v *Evictor, r *removal) bool { return annotationsOf(v, r).only }

// inProgress reports whether a controller is carrying out a request to evict the victim.
func inProgress(v *Evictor, r *removal) bool { return annotationsOf(v, r).inProgress }

// declined reports whether a request to evict the victim has come to nothing already, by this binder or another one, so
// that none is made for this claim any more.
func declined(v *Evictor, r *removal) bool { return r.claim.Declined && requestOnly(v, r) }

// marked reports whether this binder sends the evictions of the claim.
func marked(v *Evictor, r *removal) bool {
	return r.claim.State == ledger.Evicting && r.claim.Shard == v.ID
}

// requested reports whether the eviction was requested, as far as can be known, and the wait for it has not ended. An
// eviction that another binder may have sent, for a pod that shows that it can be nothing but a request, is not sent
// again, even if the order has ended.
func (r *removal) requested(v *Evictor) bool {
	return !r.podLeaving && !r.request.over && (!r.request.since.IsZero() || r.request.made && requestOnly(v, r))
}

// beginWait begins to wait for what comes of the request, and reports that.
func beginWait(v *Evictor, r *removal, why string) {
	r.request.since, r.request.made = v.Now, true
	r.sent, r.problem = true, why
	v.Publish(decisionAbout(v, r, events.DecisionEvictBackground, "the eviction was requested, and is waited for: "+why))
	r.await(v)
}

// await ends the wait if nothing is to be waited for any more. It is called when the pod has changed, and in each
// round.
func (r *removal) await(v *Evictor) {
	if r.request.since.IsZero() {
		beginWait(v, r, cmp.Or(r.problem, "whether it has been sent is not known"))
		return
	}
	seen := annotationsOf(v, r)
	r.request.taken = r.request.taken || seen.inProgress
	switch {
	case seen.known && !seen.only:
		endWait(v, r, "evictions of the pod are not requests any more")
	case seen.known && r.request.taken && !seen.inProgress:
		endWait(v, r, "the controller that had taken its eviction on has given it up")
	case !r.request.taken && !v.Now.Before(requestEnds(v, r)):
		endWait(v, r, fmt.Sprintf("no controller has taken its eviction on within %s", v.Limits.RequestFor))
	}
}

// requestEnds returns until when a request waits that nobody takes on: Limits.RequestFor after the wait began, and not
// longer after the end of the order, so that binders that take the claim over one after the other do not wait forever.
func requestEnds(v *Evictor, r *removal) time.Time {
	ends := r.request.since.Add(v.Limits.RequestFor)
	if last := r.claim.NotAfter.Add(v.Limits.RequestFor); !r.claim.NotAfter.IsZero() && last.Before(ends) {
		return last
	}
	return ends
}

// endWait ends the wait as a refusal that is final for this claim, which is given back when no eviction can be under
// way any more.
func endWait(v *Evictor, r *removal, why string) {
	r.request.since, r.request.over = time.Time{}, true
	r.failures, r.problem = r.maxTries(v), fmt.Sprintf("%s (%s)", why, r.problem)
	if !r.underWay(v) {
		r.giveBack(v)
	}
}
