package bind

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// reservation is the binder's view of one ledger entry. What to do next follows from the entry's state in the ledger
// alone, so that a binder that takes a partition over (or starts) continues where the last one stopped.
type reservation struct {
	task
	precondition precondition
	fence        fence

	// tries counts the Bindings posted so far, and losses those that were refused because the pod had changed.
	tries, losses int
	// unsure means that one of them may have been carried out, though no answer confirmed it.
	unsure bool
	// requested means that the pod's volumes and devices have been requested.
	requested    bool
	announcement announcement
	// conditionsReported means that an event has said that the pod waits for the binding conditions of its devices.
	conditionsReported bool
	// read is the pod as read after a lost resourceVersion, before the document is read.
	read *state.Pod
}

// advance takes the next step, if nothing is in flight and it is time.
func (r *reservation) advance(env *environment) {
	if r.op != 0 || r.removed || r.settled || !env.MayAct(r.key.Pod) || env.Now.Before(r.Due) {
		return
	}
	if r.again != idle {
		r.resubmit(env)
		return
	}
	switch r.entry.State {
	case ledger.Committed:
		if r.entry.Delegated && !r.declinedByPlugins() {
			r.watchBind(env)
			return
		}
		r.advanceCommitted(env)
	case ledger.Fencing:
		// A fence begun by this binder continues at once; another binder's only once it has been idle.
		if r.fence.reason != "" || env.Now.Sub(r.since) > env.Limits.Idle {
			r.fence.advance(env)
		}
	case ledger.Held:
		// A held entry is never bound; its shard displaces it, not a fence.
	}
}

// advanceCommitted fences the entry if there is a reason to, or binds it if the facts permit it. The deadline does not
// run while the reservation waits in the line. A place that is wanted back is fenced as soon as its bind would have to
// wait, for a turn or for another try.
func (r *reservation) advanceCommitted(env *environment) {
	switch {
	case r.fence.reason != "":
	case !r.turn.lined && env.Now.Sub(r.since) > r.bindDeadline(env.Base, r.requested):
		r.expire(env)
	case r.entry.Wanted && r.tries > 0:
		r.fence.setReason(ledger.FenceByWant, "wanted back, and the bind did not succeed at once")
	case r.entry.Wanted && !env.turns.free(env.Limits.Binds):
		r.fence.setReason(ledger.FenceByWant, "wanted back, and other binds come first")
	}
	if r.fence.reason != "" {
		r.fence.mark(env)
		return
	}
	p, found := env.checker.check(&r.trackedEntry)
	switch found.verdict {
	case over:
		if r.claimsUnsettled(env.Base) {
			r.releaseDevices(env, found.reason)
			return
		}
		r.settled = true
	case stale:
		r.fence.setReason(found.cause, found.reason)
		r.fence.mark(env)
	case fit:
		if r.precondition.spaceKnown(p) {
			r.takeTurn(env, p.Priority)
		}
	case unseen:
	}
}

// excuse leaves the wait for a turn out of the time that a bind may take: it says nothing about this pod. An entry that
// another binder has begun to fence meanwhile has changed since: its time has begun then.
func (r *reservation) excuse(waited time.Duration, now time.Time) {
	if r.entry.State != ledger.Committed {
		return
	}
	if r.since = r.since.Add(waited); r.since.After(now) {
		r.since = now
	}
}

// watchBind waits for a plugin's bind to show in the facts.
func (r *reservation) watchBind(env *environment) {
	result, problem := r.pluginResult(env.Base)
	switch result {
	case pluginBound:
		r.settled = true
		r.announceBound(env.Base, r.precondition.rv, true)
	case pluginOver:
		r.settled = true
	case pluginFailed:
		r.fence.reason = problem
	case pluginPending:
	}
	if r.fence.reason != "" && !r.settled {
		r.fence.mark(env)
	}
}

// takeTurn binds, or waits for a turn.
func (r *reservation) takeTurn(env *environment, priority int32) {
	switch {
	case r.turn.lined:
	case env.turns.free(env.Limits.Binds):
		r.announceOrBind(env)
	default:
		env.turns.wait(r.key, &r.turn, priority, env.Now)
	}
}

// bind posts the Binding.
//
// Order: entry Committed in the ledger (seen in this binder's view) → Binding → decision and event. A crash before
// the Binding leaves a Committed entry, which the next holder of the partition binds. A crash after it leaves a bound
// pod: the next holder's Binding is refused and it finds the pod where it should be, or the facts show it first. A
// crash before decision and event loses both: the queue learns of binds from the facts.
func (r *reservation) bind(env *environment) {
	r.tries++
	r.begin(env, binding)
	env.turns.inFlight++
	env.Emit(effect.Bind{
		Op: r.op, Pod: r.ref(), NodeUID: r.nodeUID, NodeName: r.nodeName, ResourceVersion: r.precondition.rv,
		Token: r.key.Token, AnnotationsFull: r.precondition.space == noSpace, SchedulerName: r.entry.SchedulerName,
		Attempt: r.hint.Attempt, TraceParent: r.hint.TraceParent,
		Volumes: r.volumes(env.Base, r.requested), Devices: r.devices(env.Base, r.tries == 1),
	})
}

// releaseDevices ends a reservation with device claims whose pod is gone or bound. If the pod is bound here, its claims
// are written, and the facts will soon show it; otherwise the reservation is fenced.
func (r *reservation) releaseDevices(env *environment, reason string) {
	p, known, _ := env.Pod(r.key.Pod, r.entry.PodRV)
	if known && p.NodeName == r.nodeName {
		r.Due = env.Now.Add(env.Limits.Volumes.Poll)
		return
	}
	r.fence.setReason(ledger.FenceByPod, reason)
	r.fence.mark(env)
}

// answered handles the answer to the effect in flight.
func (r *reservation) answered(env *environment, in effect.Input) {
	r.op = 0
	s := r.step
	r.step = idle
	switch in := in.(type) {
	case effect.Answered:
		switch s {
		case binding:
			env.turns.inFlight--
			r.bindAnswered(env, in)
		case announcing:
			r.announced(env, in)
		default:
			r.followFence(env, r.fence.changeAnswered(env, in))
		}
	case effect.DocRead:
		r.docRead(env, in)
	case effect.Transacted:
		switch s {
		case naming:
			if r.outcome(env, in, naming) {
				r.advance(env) // with the bind, or with another try if another transaction came first
			}
		case marking:
			r.followFence(env, r.fence.markAnswered(env, in))
		default:
			r.followFence(env, r.fence.releaseAnswered(env, in))
		}
	}
}

// followFence does what an answer to the fence leads to.
func (r *reservation) followFence(env *environment, p progress) {
	switch p {
	case ready:
		r.advance(env)
	case released:
		r.reportReleased(env)
	case waiting:
		r.reportUnansweredRelease(env)
	}
}

// reportUnansweredRelease reports a release whose answer was lost, once the ledger shows that the entry has left: by
// that transaction, or by another binder's for the same fence.
func (r *reservation) reportUnansweredRelease(env *environment) {
	if r.removed && r.op == 0 && r.again == releasing {
		r.again = idle
		r.reportReleased(env)
	}
}

// reportReleased is step 5 of the fence: it reports how the fence ended.
func (r *reservation) reportReleased(env *environment) {
	after := r.fence.after
	if after.NodeName != "" {
		r.foundBound(env, after, r.tries > 0 || r.boundByPlugin(after))
		return
	}
	d := r.decision(events.DecisionReleased)
	d.PodResourceVersion = after.ResourceVersion
	d.Message = r.fence.reason
	env.Publish(d)
}

// bindAnswered handles the answer to a Bind. It leads to the end (settled), to a fence, to another transaction or read
// before the next try (ClaimMade, Moved), or to a pause.
func (r *reservation) bindAnswered(env *environment, in effect.Answered) {
	if in.Conditions {
		r.reportConditions(env)
	}
	switch in.Result {
	case effect.Done:
		r.settled = true
		r.announceBound(env.Base, r.precondition.rv, true)
	case effect.AlreadyHere:
		r.settled = true
		r.foundBound(env, in.Pod, r.unsure)
	case effect.Elsewhere, effect.Gone:
		if r.claimsUnsettled(env.Base) {
			r.fence.setReason(ledger.FenceByPod, "the pod is "+in.Result.String())
			r.advance(env)
			return
		}
		r.settled = true
	case effect.Conflict:
		r.startRefresh(env, in.Pod)
	case effect.Refused:
		r.bindRefused(env, in.Problem)
	case effect.ClaimMade:
		r.tries-- // no Binding has been posted
		if !r.bindable(env) || !r.nameClaim(env, in.Made) {
			r.advance(env)
		}
	case effect.Waiting:
		r.requested = true
		r.Due = env.Now.Add(env.Limits.Volumes.Poll)
		if r.entry.Wanted {
			r.Due = env.Now
			r.advance(env)
		}
	default:
		r.unsure = r.unsure || !in.Refused
		r.Pause(env.Now)
		if r.entry.Wanted {
			r.Due = env.Now // a process that wants it back does not wait for another try
			r.advance(env)
		}
	}
}

// reportConditions reports once that the bind waits for the binding conditions of devices, in kube-scheduler's words
// (dynamicresources.go, PreBind), also if they hold at the first look.
func (r *reservation) reportConditions(env *environment) {
	if r.conditionsReported {
		return
	}
	r.conditionsReported = true
	env.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Type: corev1.EventTypeNormal, Reason: "BindingConditionsPending", Action: "Scheduling",
		Note: "waiting for binding conditions for device on node " + r.nodeName,
	})
}

// foundBound reports a bind that was found done, if it was this attempt's: another client may have chosen the same
// node. If another binder bound the pod, that binder has emitted the event, or has died: then the event is lost, as
// when kube-scheduler dies at that point.
func (r *reservation) foundBound(env *environment, p *state.Pod, ours bool) {
	if p != nil && (p.Attempt() == r.key.Token.String() || r.boundByPlugin(p)) {
		r.announceBound(env.Base, r.precondition.rv, ours)
	}
}

// startRefresh begins the refresh. The protocol prescribes the order: the pod has been read (rv'), now the document is
// read, and only then the bind is sent with rv'. In the reverse order, a fence could mark, change the pod and release
// between the two reads, and the bind would carry a resourceVersion from after the fence.
func (r *reservation) startRefresh(env *environment, read *state.Pod) {
	r.losses++
	if read == nil {
		r.Pause(env.Now)
		return
	}
	if r.losses >= env.Limits.Losses {
		r.fence.reason = fmt.Sprintf("the pod changed %d times between decision and bind", r.losses)
		r.fence.causeOverride = ledger.FenceByPod
		r.advance(env)
		return
	}
	if !r.bindable(env) {
		r.advance(env) // it is being fenced, or another binder holds the partition now
		return
	}
	r.read = read
	r.begin(env, checking)
	env.Emit(effect.ReadDoc{Op: r.op, NodeUID: r.nodeUID})
}

// bindable reports whether the entry is still Committed, unfinished and this binder's to bind.
func (r *reservation) bindable(env *environment) bool {
	return !r.removed && !r.settled && r.fence.reason == "" &&
		r.entry.State == ledger.Committed && env.MayAct(r.key.Pod)
}

// docRead is the second half of the refresh. The document is adopted first, so that an entry that another binder has
// fenced or released in the meantime is not bound.
func (r *reservation) docRead(env *environment, in effect.DocRead) {
	read := r.read
	r.read = nil
	if in.Problem != "" {
		r.Pause(env.Now) // the whole refresh again, starting with the pod: the next bind is refused again
		return
	}
	if in.Doc == nil {
		r.settled = true
		return
	}
	env.siblings.adopt(*in.Doc, &r.task)
	if !r.bindable(env) {
		r.advance(env)
		return
	}
	r.refresh(env, read)
}

// refresh binds with the resourceVersion just read if the pod still requests the same as when the decision was made,
// whether or not this binder has seen that version: it may have started since, and a nominated pod always changes in
// between (its own nominatedNodeName).
//
// An entry that does not record what was requested is as good as the pod version it names, if that version is known.
// If not, it cannot be determined what changed (a resize would put more on the node than was reserved), so the entry
// is fenced as well.
func (r *reservation) refresh(env *environment, read *state.Pod) {
	decidedOn, ok := r.entry.PlacementHash, true
	if decidedOn == 0 {
		decidedOn, ok = r.decidedHash(env)
	}
	found := env.checker.checkUnbound(&r.trackedEntry, read)
	reason := found.reason
	if found.verdict == stale {
		r.fence.causeOverride = found.cause
	}
	switch {
	case !ok:
		reason, r.fence.causeOverride = "the pod changed, and the version the decision used is not at hand", ledger.FenceByPod
	case decidedOn != read.PlacementHash():
		reason, r.fence.causeOverride = "the pod's spec or labels changed since the decision", ledger.FenceByPod
	case found.verdict == fit:
		r.precondition = preconditionOf(read)
		r.announceOrBind(env)
		return
	case found.verdict == unseen:
		r.Pause(env.Now)
		return
	}
	r.fence.reason = reason
	r.advance(env)
}

// decidedHash returns what the pod requested at the version that the decision used, for an entry that does not record
// it.
func (r *reservation) decidedHash(env *environment) (wish uint64, ok bool) {
	if p, known, _ := env.Pod(r.key.Pod, r.entry.PodRV); known && p.ResourceVersion == r.entry.PodRV {
		return p.PlacementHash(), true
	}
	return env.versions.hashAt(r.key.Pod, r.entry.PodRV)
}
