package bind

import (
	"fmt"

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

// fence is the machine that takes one entry back. It works on the entry's task, and reports by its progress what the
// reservation has to do next.
type fence struct {
	task *task
	// reason is why the entry is fenced; empty while it may still be bound.
	reason string
	// causeOverride is the cause of the fence, if it is not the bind.
	causeOverride ledger.FenceCause
	// after is the pod as the real change returned it.
	after *state.Pod
	// claims is the resourceVersion of device claims from which on facts show that they are settled.
	claims  uint64
	refusal refusal
}

// progress is how far an answer has brought a fence.
type progress uint8

const (
	// waiting means that nothing can be done now: the task pauses, or has ended.
	waiting progress = iota
	// ready means that the next step can be taken at once.
	ready
	// released means that the entry has been removed from the ledger.
	released
)

// setReason sets the reason and the cause of the fence.
func (f *fence) setReason(cause ledger.FenceCause, reason string) {
	f.reason = reason
	f.causeOverride = cause
}

// cause returns the cause of the fence. Shards count it against the node only if it implies something about the node:
// a user who may change a pod can cause as many fences as they like.
func (f *fence) cause() ledger.FenceCause {
	e := &f.task.entry
	switch {
	case f.causeOverride != 0:
		return f.causeOverride
	case len(e.Volumes)+len(e.Devices) > 0:
		return ledger.FenceByClaims
	}
	return ledger.FenceByBind
}

// mark is step 1.
func (f *fence) mark(env *environment) {
	t := f.task
	d, ok := env.documents.Get(t.nodeUID)
	if !ok {
		return
	}
	next, err := txns.MarkFencing(d, t.key.Pod, t.key.Token, f.cause())
	t.replace(env, next, err, marking)
}

func (f *fence) markAnswered(env *environment, in effect.Transacted) progress {
	if f.task.outcome(env, in, marking) {
		return ready // Fencing: change the pod; still Committed: mark the newer document
	}
	return waiting
}

// advance is step 2, or step 4 once the change has been made.
func (f *fence) advance(env *environment) {
	if f.reason == "" {
		f.reason = "a fence was left unfinished"
	}
	if f.after != nil {
		f.release(env)
		return
	}
	t := f.task
	t.begin(env, changing)
	// The binder's id and the operation's number make the value unique among all binders.
	env.Emit(effect.FencePod{
		Op: t.op, Pod: t.ref(), NodeName: t.nodeName, Value: fmt.Sprintf("%s-%s-%d", t.key.Token, env.ID, t.op),
		Claims: t.entry.Devices,
	})
}

func (f *fence) changeAnswered(env *environment, in effect.Answered) progress {
	switch in.Result {
	case effect.Done:
		f.refusal = refusal{}
		f.after, f.claims = in.Pod, in.ClaimVersion
		return ready
	case effect.Refused:
		f.refused(env, in)
	case effect.Gone:
		f.refusal = refusal{}
		// No bind can succeed any more. The entry leaves by hand-over when the facts show the deletion, whose
		// resourceVersion is the high-water that removal needs.
		f.task.settled = true
	default:
		if in.Failed {
			f.refused(env, in)
			return waiting
		}
		f.refusal.times = 0
		f.task.Pause(env.Now)
	}
	return waiting
}

// release is step 4. The high-water is the resourceVersion of the change, which is not below that of the bind, if
// there was one.
func (f *fence) release(env *environment) {
	t := f.task
	d, ok := env.documents.Get(t.nodeUID)
	if !ok {
		return
	}
	next, err := txns.ReleaseFenced(d, t.key.Pod, t.key.Token, f.after.ResourceVersion)
	if err != nil {
		f.after = nil // the change has to be repeated
	} else if f.claims > 0 {
		next = next.Cover(ledger.KindClaim, f.claims)
	}
	t.replace(env, next, err, releasing)
}

// releaseAnswered leads to step 5, which is the reservation's.
func (f *fence) releaseAnswered(env *environment, in effect.Transacted) progress {
	switch {
	case !f.task.outcome(env, in, releasing):
		return waiting
	case in.Result != effect.Applied && !f.task.removed:
		return ready // still Fencing: release from the newer document
	}
	return released
}
