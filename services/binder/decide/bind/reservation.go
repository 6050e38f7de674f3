package bind

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// step is the purpose of a reservation's effect in flight.
type step uint8

const (
	idle step = iota
	// binding means that the Binding is posted.
	binding
	// naming means that the claim created for the pod's resources is written into the document.
	naming
	// checking means that the resourceVersion moved, the pod has been read, and the document is being read.
	checking
	// marking, changing and releasing are the three parts of a fence.
	marking
	changing
	releasing
)

// reservation is the binder's view of one ledger entry. What to do next follows from the entry's state in the ledger
// alone, so that a binder that takes a partition over (or starts) continues where the last one stopped.
type reservation struct {
	promise

	op   effect.OpID
	step step
	// settled means that the API server has given a final answer (bound, or gone); the entry only waits for the facts
	// to show it and for the sweep. removed means that the entry has left the ledger.
	settled, removed bool
	// lined means that it waits for its turn to bind; see turns.
	lined bool
	// rv is the bind's precondition: the entry's version, or a fresher one after a refresh.
	rv uint64
	// space is whether the pod's annotations have space for the attempt at rv.
	space space
	// tries counts the Bindings posted so far, and losses those that were refused because the pod had changed.
	tries, losses int
	// unsure means that one of them may have been carried out, though no answer confirmed it.
	unsure bool
	// requested means that the pod's volumes and devices have been requested.
	requested bool
	// read is the pod as read after a lost resourceVersion, before the document is read.
	read *state.Pod
	// fenceReason is the reason for fencing the entry; empty while it may still be bound.
	fenceReason string
	fence       fence
	basis.Pacing
}

// advance takes the next step, if nothing is in flight and it is time.
func (r *reservation) advance(b *Reservations) {
	defer b.park(r)
	if r.op != 0 || r.removed || r.settled || !b.MayAct(r.key.Pod) || b.Now.Before(r.Due) {
		return
	}
	if r.fence.again != idle {
		r.resubmit(b)
		return
	}
	switch r.entry.State {
	case ledger.Committed:
		if r.entry.Delegated && !r.leftToUs() {
			r.watchBind(b)
			return
		}
		r.advanceCommitted(b)
	case ledger.Fencing:
		// A fence begun by this binder continues at once; another binder's only once it has been idle.
		if r.fenceReason != "" || b.Now.Sub(r.since) > b.Limits.Idle {
			r.advanceFencing(b)
		}
	case ledger.Held:
		// A held entry is never bound; its shard displaces it, not a fence.
	}
}

func (r *reservation) advanceCommitted(b *Reservations) {
	switch {
	case r.fenceReason != "":
	case !r.lined && b.Now.Sub(r.since) > r.bindDeadline(b.Base, r.requested):
		r.fenceReason = fmt.Sprintf("not bound within %v", r.bindDeadline(b.Base, r.requested))
	case r.entry.Wanted && r.tries > 0:
		r.fenceReason, r.fence.causeOverride = "wanted back, and the bind did not succeed at once", ledger.FenceByWant
	case r.entry.Wanted && !b.turns.free(b.Limits.Binds):
		r.fenceReason, r.fence.causeOverride = "wanted back, and other binds come first", ledger.FenceByWant
	}
	if r.fenceReason != "" {
		r.mark(b)
		return
	}
	p, found := b.checker.check(&r.promise)
	switch found.verdict {
	case over:
		if r.claimsOpen(b.Base) {
			r.overDevices(b, found.reason)
			return
		}
		r.settled = true
	case stale:
		r.fenceReason, r.fence.causeOverride = found.reason, found.cause
		r.mark(b)
	case fit:
		if r.knowsSpace(p) {
			r.takeTurn(b, p.Priority)
		}
	case unseen:
	}
}

// bind posts the Binding.
//
// Order: entry Committed in the ledger (seen in this binder's view) → Binding → decision and event. A crash before
// the Binding leaves a Committed entry, which the next holder of the partition binds. A crash after it leaves a bound
// pod: the next holder's Binding is refused and it finds the pod where it should be, or the facts show it first. A
// crash before decision and event loses both: the queue learns of binds from the facts.
func (r *reservation) bind(b *Reservations) {
	r.tries++
	r.begin(b, binding)
	b.turns.taken++
	b.Emit(effect.Bind{
		Op: r.op, Pod: r.ref(), NodeUID: r.nodeUID, NodeName: r.nodeName, ResourceVersion: r.rv,
		Token: r.key.Token, Full: r.space == noSpace, SchedulerName: r.entry.SchedulerName,
		Attempt: r.hint.Attempt, TraceParent: r.hint.TraceParent,
		Volumes: r.volumes(b.Base, r.requested), Devices: r.devices(b.Base, r.tries == 1),
	})
}

// overDevices ends a reservation with device claims whose pod is gone or bound. If the pod is bound here, its claims
// are written, and the facts will soon show it; otherwise the reservation is fenced.
func (r *reservation) overDevices(b *Reservations, reason string) {
	p, known, _ := b.Pod(r.key.Pod, r.entry.PodRV)
	if known && p.NodeName == r.nodeName {
		r.Due = b.Now.Add(b.Limits.Volumes.Poll)
		return
	}
	r.fenceReason, r.fence.causeOverride = reason, ledger.FenceByPod
	r.mark(b)
}

func (r *reservation) begin(b *Reservations, s step) {
	r.op = b.Begin(work{r, b})
	r.step = s
	r.lined = false
	delete(b.waiting, r.key)
}

func (r *reservation) answered(b *Reservations, in effect.Input) {
	r.op = 0
	s := r.step
	r.step = idle
	defer b.park(r)
	switch in := in.(type) {
	case effect.Answered:
		if s == binding {
			b.turns.taken--
			r.bindAnswered(b, in)
			b.nextTurns()
		} else {
			r.changeAnswered(b, in)
		}
	case effect.DocRead:
		r.docRead(b, in)
	case effect.Transacted:
		switch s {
		case naming:
			r.nameAnswered(b, in)
		case marking:
			r.markAnswered(b, in)
		default:
			r.releaseAnswered(b, in)
		}
	}
}

func (r *reservation) bindAnswered(b *Reservations, in effect.Answered) {
	switch in.Result {
	case effect.Done:
		r.settled = true
		r.announceBound(b, true)
	case effect.AlreadyHere:
		r.settled = true
		r.foundBound(b, in.Pod, r.unsure)
	case effect.Elsewhere, effect.Gone:
		if r.claimsOpen(b.Base) {
			r.fenceReason, r.fence.causeOverride = "the pod is "+in.Result.String(), ledger.FenceByPod
			r.advance(b)
			return
		}
		r.settled = true
	case effect.Moved:
		r.moved(b, in.Pod)
	case effect.Refused:
		r.bindRefused(b, in.Problem)
	case effect.ClaimMade:
		r.nameClaim(b, in.Made)
	case effect.Waiting:
		r.requested = true
		r.Due = b.Now.Add(b.Limits.Volumes.Poll)
		if r.entry.Wanted {
			r.Due = b.Now
			r.advance(b)
		}
	default:
		r.unsure = r.unsure || !in.Refused
		r.Pause(b.Now)
		if r.entry.Wanted {
			r.Due = b.Now // a process that wants it back does not wait for another try
			r.advance(b)
		}
	}
}

// foundBound reports a bind that was found done, if it was this attempt's: another client may have chosen the same
// node. If another binder bound the pod, that binder has emitted the event, or has died: then the event is lost, as
// when kube-scheduler dies at that point.
func (r *reservation) foundBound(b *Reservations, p *state.Pod, ours bool) {
	if p != nil && (p.Attempt() == r.key.Token.String() || r.boundByPlugin(p)) {
		r.announceBound(b, ours)
	}
}

// announceBound publishes the bind to the log and then, if users is set, emits an event.
func (r *reservation) announceBound(b *Reservations, users bool) {
	d := r.decision(events.DecisionBound)
	d.PodResourceVersion = r.rv
	b.Publish(d)
	if !users {
		return
	}
	b.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName, Type: "Normal", Reason: "Scheduled", Action: "Binding",
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", r.entry.Namespace, r.entry.Name, r.nodeName), Once: true,
	})
}

// moved begins the refresh. The protocol prescribes the order: the pod has been read (rv'), now the document is read,
// and only then the bind is sent with rv'. In the reverse order, a fence could mark, change the pod and release
// between the two reads, and the bind would carry a resourceVersion from after the fence.
func (r *reservation) moved(b *Reservations, read *state.Pod) {
	r.losses++
	if read == nil {
		r.Pause(b.Now)
		return
	}
	if r.losses >= b.Limits.Losses {
		r.fenceReason = fmt.Sprintf("the pod changed %d times between decision and bind", r.losses)
		r.fence.causeOverride = ledger.FenceByPod
		r.advance(b)
		return
	}
	if !r.live(b) {
		r.advance(b) // it is being fenced, or another binder holds the partition now
		return
	}
	r.read = read
	r.begin(b, checking)
	b.Emit(effect.ReadDoc{Op: r.op, NodeUID: r.nodeUID})
}

// live reports whether the entry is still Committed, unfinished and this binder's to bind.
func (r *reservation) live(b *Reservations) bool {
	return !r.removed && !r.settled && r.fenceReason == "" &&
		r.entry.State == ledger.Committed && b.MayAct(r.key.Pod)
}

func (r *reservation) docRead(b *Reservations, in effect.DocRead) {
	read := r.read
	r.read = nil
	if in.Problem != "" {
		r.Pause(b.Now) // the whole refresh again, starting with the pod: the next bind is refused again
		return
	}
	if in.Doc == nil {
		r.settled = true
		return
	}
	b.learnAndAdvance(*in.Doc, r)
	if !r.live(b) {
		r.advance(b)
		return
	}
	r.refresh(b, read)
}

// refresh binds with the resourceVersion just read if the pod still requests the same as when the decision was made,
// whether or not this binder has seen that version: it may have started since, and a nominated pod always changes in
// between (its own nominatedNodeName).
//
// An entry that does not record what was requested is as good as the pod version it names, if that version is known.
// If not, it cannot be determined what changed (a resize would put more on the node than was reserved), so the entry
// is fenced as well.
func (r *reservation) refresh(b *Reservations, read *state.Pod) {
	decidedOn, ok := r.entry.Wish, true
	if decidedOn == 0 {
		decidedOn, ok = b.wishAt(r.key.Pod, r.entry.PodRV)
	}
	found := b.checker.checkUnbound(&r.promise, read)
	reason := found.reason
	if found.verdict == stale {
		r.fence.causeOverride = found.cause
	}
	switch {
	case !ok:
		reason, r.fence.causeOverride = "the pod changed, and the version the decision used is not at hand", ledger.FenceByPod
	case decidedOn != read.Wish():
		reason, r.fence.causeOverride = "the pod's spec or labels changed since the decision", ledger.FenceByPod
	case found.verdict == fit:
		r.rv, r.space = read.ResourceVersion, spaceIn(read)
		r.bind(b)
		return
	case found.verdict == unseen:
		r.Pause(b.Now)
		return
	}
	r.fenceReason = reason
	r.advance(b)
}
