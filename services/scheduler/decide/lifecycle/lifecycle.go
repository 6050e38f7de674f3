package lifecycle

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Attempts ends attempts, or puts them back. It withdraws what they have staged, and keeps the offers to give back.
type Attempts struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Record   *record.Recorder
	// Undo makes plugins take back what they have reserved in the cycle of an attempt.
	Undo func(*attempt.PluginBinding)
	// returns are tokens to give back with the next request.
	returns []string
	// Withdrawn counts staged pods that were taken back without a reservation.
	Withdrawn uint64
	returned  returnedPlaces
	// woken: the passing of time or another shard has changed what deferred attempts wait for.
	woken bool
}

// GiveBack returns an offer untried.
func (l *Attempts) GiveBack(a *attempt.Attempt) {
	l.returns = append(l.returns, a.Offer.Token)
	l.Drop(a)
}

// Drop removes an attempt and what it staged.
func (l *Attempts) Drop(a *attempt.Attempt) {
	l.Attempts.End(a)
	l.Unstage(a)
}

// Unstage withdraws what an attempt staged, and makes its plugins undo their work. If no reservation has taken its
// place, decisions that counted the pod in the meantime have counted a pod that is not there.
func (l *Attempts) Unstage(a *attempt.Attempt) {
	uid := a.Offer.Pod.UID
	l.Undo(a.Plugins)
	a.Plugins = nil
	if !l.Shard.View.IsStaged(uid) {
		return
	}
	l.Shard.View.Unstage(uid)
	l.ReturnPlace(&a.Pick)
	if _, _, reserved := l.Shard.Ledger.Entry(uid); !reserved {
		l.Withdrawn++
	}
	l.Record.Abandoned(a)
}

// Requeue puts an attempt back at the head, unstaged, to be decided on current documents. A draining shard decides
// nothing more and gives it back: another shard will decide.
func (l *Attempts) Requeue(a *attempt.Attempt) {
	if l.Shard.Draining {
		l.GiveBack(a)
		return
	}
	l.Unstage(a)
	a.Pick = attempt.Pick{}
	a.Advice.Forget()
	l.Attempts.Prepend(attempt.Pending, a)
}

// Fail ends an attempt that cannot go on; the queue backs the pod off.
func (l *Attempts) Fail(a *attempt.Attempt, message string) {
	l.Record.Failed(a, message)
	l.Drop(a)
}

// HoldBack is Fail for an attempt that found room only on nodes that its pod avoids for now.
func (l *Attempts) HoldBack(a *attempt.Attempt, message string, withheld []string) {
	l.Record.HeldBack(a, message, withheld)
	l.Drop(a)
}

// Positions returns the positions that a decision made now depends on.
func (l *Attempts) Positions() attempt.Positions {
	return attempt.Positions{
		Facts: l.Shard.Store.Position(), Ledger: l.Shard.Ledger.Revision(), Withdrawn: l.Withdrawn,
	}
}

// Verdict returns the decision that a pod fits nowhere, as of the positions that it depends on. Its reasons are for the
// caller to add.
func (l *Attempts) Verdict(a *attempt.Attempt, from attempt.Positions) events.Decision {
	d := l.Record.Decision(events.DecisionUnplaceable, a)
	d.FactSequence, d.FactEpoch = from.Facts.Sequence, from.Facts.Epoch
	d.LedgerRevision = from.Ledger
	return d
}

// Unplaceable ends an attempt with its verdict, or, if the verdict is unsettled, with an error. The offer may have
// been renewed since.
func (l *Attempts) Unplaceable(r attempt.Rejection) {
	if r.Unsettled {
		l.Fail(r.Attempt, promisesPending+r.Decision.Message)
		return
	}
	l.Record.Unplaceable(r.Attempt, r.Decision)
	for _, d := range r.Others {
		l.Record.Effects.Decide(d)
	}
	if r.Gang != nil {
		l.Record.Effects.ReportGang(r.Attempt.GangReport(step.Unschedulable))
	}
	l.Drop(r.Attempt)
}

// promisesPending is the message for a pod that found no node while that is no verdict yet.
const promisesPending = "devices are still promised to other pods: "

// returnedPlaces records where pods were staged in kept places and did not get them. The document of such a node has
// not changed, and pods staged there in between may have counted the room of the place as free.
type returnedPlaces struct {
	// count counts them; last is the number of the latest one on each node, by UID.
	count uint64
	last  map[string]uint64
}

// ReturnPlace notes that the room that a pick took of a placeholder is kept again.
func (l *Attempts) ReturnPlace(p *attempt.Pick) {
	if p.Kept.Token == 0 {
		return
	}
	if _, e, kept := l.Shard.Ledger.Plans().Owner(ledger.PlanID(p.Kept.Token, false)); !kept || e.Token != p.Kept.Token {
		return // the pod has its place
	}
	r := &l.returned
	if r.last == nil {
		r.last = map[string]uint64{}
	}
	r.count++
	r.last[p.NodeUID] = r.count
	l.WakeDeferred()
}

// PickOf returns the choice of a node, with what it depends on.
func (l *Attempts) PickOf(a *attempt.Attempt, node *state.NodeInfo, needs attempt.Needs) attempt.Pick {
	epoch, _ := l.Shard.Holds(a.Offer.Partition)
	return attempt.Pick{
		NodeUID: node.Node.UID, NodeName: node.Node.Name, NodeRV: node.Node.ResourceVersion,
		Basis: l.Shard.Ledger.Version(node.Node.UID), Epoch: epoch, Decided: l.Shard.Now, Needs: needs,
		Total: len(l.Shard.View.Nodes()),
		Seed:  attempt.Seed(a.Pod.UID, a.Offer.Attempt), FactSequence: l.Shard.Store.Position().Sequence,
		Returned: l.returned.count,
	}
}

// Defer puts an attempt off until something has changed.
func (l *Attempts) Defer(a *attempt.Attempt) { l.Attempts.Append(attempt.Deferred, a) }

// WakeDeferred makes deferred attempts pending in the current step or the next.
func (l *Attempts) WakeDeferred() { l.woken = true }

// TakeWoken reports whether deferred attempts were stirred since the last call.
func (l *Attempts) TakeWoken() bool {
	moved := l.woken
	l.woken = false
	return moved
}

// Withdraw notes that a staged pod no longer counts as certain to stay.
func (l *Attempts) Withdraw() { l.Withdrawn++ }

// TakeReturns returns the tokens to give back since the last call.
func (l *Attempts) TakeReturns() []string {
	tokens := l.returns
	l.returns = nil
	return tokens
}

// Refuse gives back an offer that is not accepted.
func (l *Attempts) Refuse(token string) { l.returns = append(l.returns, token) }

// PlaceReturnedSince reports whether a place that is kept on the node of a pick was returned after the pick was made:
// the pick may have counted its room as free.
func (l *Attempts) PlaceReturnedSince(p *attempt.Pick) bool {
	return l.returned.last[p.NodeUID] > p.Returned
}

// ForgetReturned forgets where places were returned: nothing is staged that could have counted them.
func (l *Attempts) ForgetReturned() { l.returned.last = nil }
