package bind

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A fence takes a Committed entry back although a bind for it may be in flight.
//
// Order, and what a crash before or after each step leaves behind:
//
//  1. T6: the entry becomes Fencing. From here on no refresh path finds it Committed.
//     Crash before: Committed, bound or fenced by the next holder.
//  2. The pod is really changed (fresh value of an annotation or condition, through pods/status). Binds sent before
//     carry an older resourceVersion and are refused from here on. So are writes to its device claims, if it was
//     to give them devices. Crash before: Fencing, idle; any holder of the partition repeats the
//     change with a new value.
//  3. The changed pod's nodeName shows whether a bind came first. Crash: as before, repeated.
//  4. T7: the entry is removed, and the high-water is raised to the change. Crash before: as before;
//     after: the entry is gone, and the queue sees that in the ledger.
//  5. If unbound, a decision is published, so that the pod is offered again sooner.

// fence is the state of a reservation's fence, or of another transaction on its document.
type fence struct {
	// txn is kept to be resubmitted unchanged while its outcome is unknown. next is the document it writes. again is
	// the step to resubmit, idle for none.
	txn   ledger.Txn
	next  ledger.NodeDoc
	again step
	// after is the pod as the real change returned it.
	after *state.Pod
	// claims is the resourceVersion of device claims from which on facts show that they are settled.
	claims  uint64
	refusal refusal
	// causeOverride is the cause of the fence, if it is not the bind.
	causeOverride ledger.FenceCause
}

// cause returns the cause of the fence. Shards count it against the node only if it implies something about the node:
// a user who may change a pod can cause as many fences as they like.
func (f *fence) cause(e *ledger.Entry) ledger.FenceCause {
	switch {
	case f.causeOverride != 0:
		return f.causeOverride
	case len(e.Volumes)+len(e.Devices) > 0:
		return ledger.FenceByClaims
	}
	return ledger.FenceByBind
}

// mark is step 1.
func (r *reservation) mark(b *Reservations) {
	d, ok := b.documents.Get(r.nodeUID)
	if !ok {
		return
	}
	next, err := txns.MarkFencing(d, r.key.Pod, r.key.Token, r.fence.cause(&r.entry))
	r.replace(b, next, err, marking)
}

// release is step 4. The high-water is the resourceVersion of the change, which is not below that of the bind, if
// there was one.
func (r *reservation) release(b *Reservations) {
	d, ok := b.documents.Get(r.nodeUID)
	if !ok {
		return
	}
	next, err := txns.ReleaseFenced(d, r.key.Pod, r.key.Token, r.fence.after.ResourceVersion)
	if err != nil {
		r.fence.after = nil // the change has to be repeated
	} else if r.fence.claims > 0 {
		next = next.Cover(ledger.KindClaim, r.fence.claims)
	}
	r.replace(b, next, err, releasing)
}

func (r *reservation) replace(b *Reservations, next ledger.NodeDoc, err error, s step) {
	if err == nil {
		r.fence.next = next
		r.fence.txn, err = txns.Replace(next)
	}
	if err != nil {
		b.Fault("fence of pod "+r.key.Pod, err)
		r.Pause(b.Now)
		return
	}
	r.transact(b, s)
}

func (r *reservation) transact(b *Reservations, s step) {
	r.begin(b, s)
	b.Emit(effect.Transact{Op: r.op, NodeUID: r.nodeUID, Txn: r.fence.txn, Why: transactions[s]})
}

// transactions are the labels of a reservation's transactions.
var transactions = map[step]string{naming: "name-claim", marking: "fence-mark", releasing: "fence-release"}

// resubmit sends the identical transaction again: both copies compare the same revision, so at most one applies.
func (r *reservation) resubmit(b *Reservations) {
	s := r.fence.again
	r.fence.again = idle
	r.transact(b, s)
}

// outcome handles the end of a transaction. It adopts the resulting document, and resubmits the identical transaction
// after a pause if the outcome is unknown.
func (r *reservation) outcome(b *Reservations, in effect.Transacted, s step) (known bool) {
	switch {
	case in.Result == effect.Applied:
		r.fence.next.Revision = in.Revision
		b.learnAndAdvance(r.fence.next, r)
	case in.Result == effect.Lost && in.Current != nil:
		b.learnAndAdvance(*in.Current, r)
	case in.Result == effect.Lost:
		r.settled = true // no document, no reservation
		return false
	case in.Result == effect.TxnUnknown:
		r.fence.again = s
		r.Pause(b.Now)
		r.leftUnanswered(b)
		return false
	default:
		r.Pause(b.Now)
		return false
	}
	return true
}

func (r *reservation) markAnswered(b *Reservations, in effect.Transacted) {
	if r.outcome(b, in, marking) {
		r.advance(b) // Fencing: change the pod; still Committed: mark the newer document
	}
}

// advanceFencing is step 2, or step 4 once the change has been made.
func (r *reservation) advanceFencing(b *Reservations) {
	if r.fenceReason == "" {
		r.fenceReason = "a fence was left unfinished"
	}
	if r.fence.after != nil {
		r.release(b)
		return
	}
	r.begin(b, changing)
	// The binder's id and the operation's number make the value unique among all binders.
	b.Emit(effect.FencePod{
		Op: r.op, Pod: r.ref(), NodeName: r.nodeName, Value: fmt.Sprintf("%s-%s-%d", r.key.Token, b.ID, r.op),
		Claims: r.entry.Devices,
	})
}

func (r *reservation) changeAnswered(b *Reservations, in effect.Answered) {
	switch in.Result {
	case effect.Done:
		r.changeAllowed(b)
		r.fence.after, r.fence.claims = in.Pod, in.ClaimVersion
		r.advance(b)
	case effect.Refused:
		r.changeRefused(b, in)
	case effect.Gone:
		r.changeAllowed(b)
		// No bind can succeed any more. The entry leaves by hand-over when the facts show the deletion, whose
		// resourceVersion is the high-water that removal needs.
		r.settled = true
	default:
		if in.Failed {
			r.changeRefused(b, in)
			return
		}
		r.fence.refusal.times = 0
		r.Pause(b.Now)
	}
}

// releaseAnswered is step 5.
func (r *reservation) releaseAnswered(b *Reservations, in effect.Transacted) {
	if !r.outcome(b, in, releasing) {
		return
	}
	if in.Result != effect.Applied && !r.removed {
		r.advance(b) // still Fencing: release from the newer document
		return
	}
	r.reportReleased(b)
}

// leftUnanswered reports a release whose answer was lost, once the ledger shows that the entry has left: by that
// transaction, or by another binder's for the same fence.
func (r *reservation) leftUnanswered(b *Reservations) {
	if r.removed && r.op == 0 && r.fence.again == releasing {
		r.fence.again = idle
		r.reportReleased(b)
	}
}

// reportReleased reports how the fence ended.
func (r *reservation) reportReleased(b *Reservations) {
	if r.fence.after.NodeName != "" {
		r.foundBound(b, r.fence.after, r.tries > 0 || r.boundByPlugin(r.fence.after))
		return
	}
	d := r.decision(events.DecisionReleased)
	d.PodResourceVersion = r.fence.after.ResourceVersion
	d.Message = r.fenceReason
	b.Publish(d)
}
