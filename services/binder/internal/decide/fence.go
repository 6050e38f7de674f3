package decide

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
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
	// blame is the cause of the fence, if it is not the bind.
	blame ledger.FenceCause
}

// mark is step 1.
func (r *reservation) mark(c *Core) {
	d, ok := c.docs[r.nodeUID]
	if !ok {
		return
	}
	next, err := ledger.MarkFencing(d.doc, r.key.pod, r.key.token, r.cause())
	r.replace(c, next, err, marking)
}

// cause returns the cause of the fence. Shards count it against the node only if it implies something about the node:
// a user who may change a pod can cause as many fences as they like.
func (r *reservation) cause() ledger.FenceCause {
	switch {
	case r.fence.blame != 0:
		return r.fence.blame
	case len(r.entry.Volumes)+len(r.entry.Devices) > 0:
		return ledger.FenceByClaims
	}
	return ledger.FenceByBind
}

// release is step 4. The high-water is the resourceVersion of the change, which is not below that of the bind, if
// there was one.
func (r *reservation) release(c *Core) {
	d, ok := c.docs[r.nodeUID]
	if !ok {
		return
	}
	next, err := ledger.ReleaseFenced(d.doc, r.key.pod, r.key.token, r.fence.after.ResourceVersion)
	if err != nil {
		r.fence.after = nil // the change has to be repeated
	} else if r.fence.claims > 0 {
		next = ledger.Cover(next, ledger.KindClaim, r.fence.claims)
	}
	r.replace(c, next, err, releasing)
}

func (r *reservation) replace(c *Core, next ledger.NodeDoc, err error, s step) {
	if err == nil {
		r.fence.next = next
		r.fence.txn, err = ledger.Replace(next)
	}
	if err != nil {
		c.fault("fence of pod "+r.key.pod, err)
		r.backOff(c)
		return
	}
	r.transact(c, s)
}

func (r *reservation) transact(c *Core, s step) {
	r.begin(c, s)
	c.emit(Transact{Op: r.op, NodeUID: r.nodeUID, Txn: r.fence.txn, Why: transactions[s]})
}

// transactions are the labels of a reservation's transactions.
var transactions = map[step]string{naming: "name-claim", marking: "fence-mark", releasing: "fence-release"}

// resubmit sends the identical transaction again: both copies compare the same revision, so at most one applies.
func (r *reservation) resubmit(c *Core) {
	s := r.fence.again
	r.fence.again = idle
	r.transact(c, s)
}

// outcome handles the end of a transaction. It adopts the resulting document, and resubmits the identical transaction
// after a pause if the outcome is unknown.
func (r *reservation) outcome(c *Core, in Transacted, s step) (known bool) {
	switch {
	case in.Result == Applied:
		r.fence.next.Revision = in.Revision
		c.learnAndAdvance(r.fence.next, r)
	case in.Result == Lost && in.Current != nil:
		c.learnAndAdvance(*in.Current, r)
	case in.Result == Lost:
		r.settled = true // no document, no reservation
		return false
	case in.Result == TxnUnknown:
		r.fence.again = s
		r.backOff(c)
		r.leftUnanswered(c)
		return false
	default:
		r.backOff(c)
		return false
	}
	return true
}

// learnAndAdvance adopts a document and advances the other reservations in it; self is the caller's reservation,
// which the caller advances.
func (c *Core) learnAndAdvance(d ledger.NodeDoc, self *reservation) {
	for _, r := range c.learn(d) {
		if r != self {
			r.advance(c)
		}
	}
}

func (r *reservation) markAnswered(c *Core, in Transacted) {
	if r.outcome(c, in, marking) {
		r.advance(c) // Fencing: change the pod; still Committed: mark the newer document
	}
}

// advanceFencing is step 2, or step 4 once the change has been made.
func (r *reservation) advanceFencing(c *Core) {
	if r.doomed == "" {
		r.doomed = "a fence was left unfinished"
	}
	if r.fence.after != nil {
		r.release(c)
		return
	}
	r.begin(c, changing)
	// The binder's id and the operation's number make the value unique among all binders.
	c.emit(FencePod{
		Op: r.op, Pod: r.ref(), NodeName: r.nodeName, Value: fmt.Sprintf("%s-%s-%d", r.key.token, c.id, r.op),
		Claims: r.entry.Devices,
	})
}

func (r *reservation) changeAnswered(c *Core, in Answered) {
	switch in.Result {
	case Done:
		r.changeAllowed(c)
		r.fence.after, r.fence.claims = in.Pod, in.ClaimVersion
		r.advance(c)
	case Refused:
		r.changeRefused(c, in)
	case Gone:
		r.changeAllowed(c)
		// No bind can succeed any more. The entry leaves by hand-over when the facts show the deletion, whose
		// resourceVersion is the high-water that removal needs.
		r.settled = true
	default:
		if in.Failed {
			r.changeRefused(c, in)
			return
		}
		r.fence.refusal.times = 0
		r.backOff(c)
	}
}

// releaseAnswered is step 5.
func (r *reservation) releaseAnswered(c *Core, in Transacted) {
	if !r.outcome(c, in, releasing) {
		return
	}
	if in.Result != Applied && !r.removed {
		r.advance(c) // still Fencing: release from the newer document
		return
	}
	r.tellReleased(c)
}

// leftUnanswered reports a release whose answer was lost, once the ledger shows that the entry has left: by that
// transaction, or by another binder's for the same fence.
func (r *reservation) leftUnanswered(c *Core) {
	if r.removed && r.op == 0 && r.fence.again == releasing {
		r.fence.again = idle
		r.tellReleased(c)
	}
}

// tellReleased reports how the fence ended.
func (r *reservation) tellReleased(c *Core) {
	if r.fence.after.NodeName != "" {
		r.foundBound(c, r.fence.after, r.tries > 0 || r.boundByPlugin(r.fence.after))
		return
	}
	d := r.decision(events.DecisionReleased)
	d.PodResourceVersion = r.fence.after.ResourceVersion
	d.Message = r.doomed
	c.publish(d)
}
