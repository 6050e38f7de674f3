package bind

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// environment holds what all tasks of one binder share. There is one, and Reservations owns it.
type environment struct {
	*basis.Base
	documents Documents
	checker   checker
	versions  versions
	turns     turns
	siblings  siblings
}

// siblings are the reservations of the binder, as the task of one of them sees them.
type siblings interface {
	// adopt learns a document, and advances the reservations in it that are new or changed, except that of self,
	// which its caller advances.
	adopt(d ledger.NodeDoc, self *task)
}

// step is the purpose of a task's effect in flight.
type step uint8

const (
	idle step = iota
	// binding means that the Binding is posted.
	binding
	// announcing means that the node is written into the pod's status before volumes and devices are prepared.
	announcing
	// naming means that the claim created for the pod's resources is written into the document.
	naming
	// checking means that the resourceVersion moved, the pod has been read, and the document is being read.
	checking
	// marking, changing and releasing are the three parts of a fence.
	marking
	changing
	releasing
)

// task is the state of the work on one ledger entry that its bind and its fence have in common: the entry, the one
// effect in flight, the transaction that may have to be repeated, and the pause before the next try.
type task struct {
	trackedEntry
	// machine receives the answers to the task's effects.
	machine effect.Machine

	op   effect.OpID
	step step
	// settled means that the API server has given a final answer (bound, or gone); the entry only waits for the facts
	// to show it and for the sweep. removed means that the entry has left the ledger.
	settled, removed bool
	// turn is its wait for a turn to bind.
	turn turn

	// txn is the last transaction on the node's document. It is kept to be resubmitted unchanged while its outcome is
	// unknown. next is the document that it writes. again is the step to resubmit, idle for none.
	txn   ledger.Txn
	next  ledger.NodeDoc
	again step
	basis.Pacing
}

// begin registers the task's next effect, which the caller emits with t.op. A task that begins one loses its place in
// the line.
func (t *task) begin(env *environment, s step) {
	t.op = env.Begin(t.machine)
	t.step = s
	t.turn.lined = false
}

// transactions are the labels of a task's transactions.
var transactions = map[step]string{naming: "name-claim", marking: "fence-mark", releasing: "fence-release"}

// replace sends the transaction that replaces the node's document by next. err is the reason why there is no next.
func (t *task) replace(env *environment, next ledger.NodeDoc, err error, s step) {
	if err == nil {
		t.next = next
		t.txn, err = txns.Replace(next)
	}
	if err != nil {
		env.Fault("fence of pod "+t.key.Pod, err)
		t.Pause(env.Now)
		return
	}
	t.transact(env, s)
}

func (t *task) transact(env *environment, s step) {
	t.begin(env, s)
	env.Emit(effect.Transact{Op: t.op, NodeUID: t.nodeUID, Txn: t.txn, Why: transactions[s]})
}

// resubmit sends the identical transaction again: both copies compare the same revision, so at most one applies.
func (t *task) resubmit(env *environment) {
	s := t.again
	t.again = idle
	t.transact(env, s)
}

// outcome handles the end of a transaction. It adopts the resulting document, and schedules the identical transaction
// after a pause if the outcome is unknown. It reports whether the document is known now; if not, there is nothing to
// continue with.
func (t *task) outcome(env *environment, in effect.Transacted, s step) (known bool) {
	switch {
	case in.Result == effect.Applied:
		t.next.Revision = in.Revision
		env.siblings.adopt(t.next, t)
	case in.Result == effect.Lost && in.Current != nil:
		env.siblings.adopt(*in.Current, t)
	case in.Result == effect.Lost:
		t.settled = true // no document, no reservation
		return false
	case in.Result == effect.TxnUnknown:
		t.again = s
		t.Pause(env.Now)
		return false
	default:
		t.Pause(env.Now)
		return false
	}
	return true
}

// nameClaim writes the claim that was created for the pod's resources into the entry (T14). It reports false if the
// binder does not know the document.
//
// The claim is created before its UID is in the ledger, and given devices after that. Order, and what a crash before
// each step leaves behind: the claim is created (before: nothing) → T14 writes its UID and resourceVersion into the
// entry (before: a claim without devices, which the next binder finds by its name, and which is deleted with the pod)
// → the claim is written like any other (reservation.bind).
func (t *task) nameClaim(env *environment, made ledger.DevicePick) (known bool) {
	d, ok := env.documents.Get(t.nodeUID)
	if !ok {
		return false
	}
	next, err := txns.NameClaim(d, t.key.Pod, t.key.Token, made)
	t.replace(env, next, err, naming)
	return true
}
