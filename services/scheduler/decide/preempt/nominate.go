package preempt

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/budgets"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/failures"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// nominator looks for pods that can be evicted for a more important pod that fits nowhere, and holds the place for
// it (T2), or takes over the place that is held for a less important pod (T4). It has no state of its own between
// steps: the attempt in flight is in the slot, and a hold that was made is in Holds.
type nominator struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher

	consults *advice.Consults
	holds    *Holds
	failures *failures.Memory
	budgets  *budgets.Book
	places   *Places
}

// seeker is an attempt that fits nowhere, with the state that the search for victims needs: the pod as it was
// decided, its profile, its rules about pods on other nodes, and what its claims need. Rejection is the verdict that
// it ends with if there is no plan.
type seeker struct {
	by *nominator
	attempt.Rejection
	pod     *state.Pod
	profile *placement.Profile
	concern guard.Concern
	volumes claims.Supply
}

// nominate builds and sends T2; false if nothing was sent, and the attempt has been put back or has ended. The
// steps:
//
//  1. Owners between whose pods plans keep failing get no plan.
//  2. The documents of the place, the victims and the keepers, with the claims on the victims.
//  3. The guards of the pod's rules, as if it were placed now, and the budgets that the victims take from.
//  4. What the pod's claims get once the victims are gone.
//  5. The registration of terms that the ledger does not know yet. The attempt waits for it, and searches again.
//
// The attempt is deferred if a step needs state that is still on its way: a victim or keeper that is only reserved
// by the transaction in flight, a guard or budget that is not counted yet.
func (nm *nominator) nominate(s seeker, plan preempt.Result) bool {
	a := s.Attempt
	if no := nm.failures.RefusesVictims(s.pod, plan.Victims, nm.shard.Now); no.Why != "" {
		nm.refusePlan(s, no)
		return false
	}
	b, ok := newPlan(nm.shard, a, plan.Node)
	if !ok || nm.places.hasStagedPod(plan.Node.Node.UID) || !b.victims(plan.Victims) || !b.keep(plan.Keepers) {
		// A victim or keeper is only reserved by what is in flight, or has changed since.
		nm.life.Defer(a)
		return false
	}
	demanded, ready := nm.rules.Demands(&s.concern, plan.Node, crossnode.Following{
		First: len(plan.Keepers) == 0, Pins: make([]attempt.Pin, len(plan.Keepers)),
	})
	rooms, known := nm.budgets.RoomsFor(plan.Budgets, s.profile.ExceedsBudgets())
	if !ready || !known {
		nm.life.Defer(a)
		return false
	}
	entry, held, ok := nm.pickSupply(s, plan)
	if !ok {
		return false
	}
	if !nm.terms.Registered(a, demanded, a.Pick.Volumes) {
		a.Pick = attempt.Pick{}
		return false
	}
	n := b.request(plan.Node, entry)
	n.Budgets = rooms
	n.Guards = demanded.Guards
	n.Exclusives = held
	d := &nomination{seeker: s, node: plan.Node.Node, victims: len(plan.Victims), token: entry.Token}
	for _, v := range plan.Victims {
		if v.Reserved {
			d.yielding.reserved = append(d.yielding.reserved, v.Pod.UID)
		}
	}
	d.yielding.alone = len(d.yielding.reserved) == len(plan.Victims)
	return nm.sendNomination(d, n)
}

// pickSupply returns the reservation that holds a place, with what the pod's claims get there once the victims are
// gone: no other pod may get that in between. The promotion picks again. It returns false if there is nothing to
// send for now; the attempt is deferred or has failed then.
func (nm *nominator) pickSupply(
	s seeker, plan preempt.Result,
) (entry ledger.Entry, held []ledger.ExclusiveDoc, ok bool) {
	a := s.Attempt
	var gone []*state.Pod
	for _, v := range plan.Victims {
		gone = append(gone, v.Pod)
	}
	v, ready, err := nm.shard.Claims.Pick(s.volumes, s.profile, claims.Target{
		Pod: s.pod, Node: plan.Node.Node, Seed: s.Decision.Seed,
	}, gone...)
	if err == nil && ready {
		a.Pick.Volumes = v
		entry, err = a.Entry(nm.shard.ID)
	}
	if err != nil {
		nm.life.Fail(a, err.Error())
		return entry, nil, false
	}
	holder := ledger.Holder{PodUID: entry.PodUID, Token: entry.Token, NodeUID: plan.Node.Node.UID}
	docs, err := nm.shard.Claims.Take(v.Holdings(), holder, nil)
	if !ready || err != nil {
		a.Pick = attempt.Pick{}
		nm.life.Defer(a)
		return entry, nil, false
	}
	return entry, claims.Sorted(docs), true
}

// sendNomination sends a T2, as a whole, or, if that is too large for one transaction, its first part. The pod is
// staged on the node before the send, so that decisions made while the transaction is in flight count it there.
func (nm *nominator) sendNomination(d *nomination, n txns.Nomination) bool {
	a := d.Attempt
	change, err := txns.Nominate(n)
	if err == nil {
		d.plan = n.Plan()
		nm.pickFor(a, d.node, &d.Decision)
		if err = nm.slot.Launch(d, change, a); err == nil {
			return true
		}
		nm.unpick(a)
	}
	if txn.IsTooLarge(err) {
		return nm.sendFirstPart(d, n)
	}
	return nm.handleBuildError(a, err)
}

// sendFirstPart sends the first transaction of a plan that is too large for one: the hold, the pins on the keepers
// and the plan's record, which is Forming. It claims no victim; these follow in parts (reconciler.form), and none is
// evicted before the record is Ready. A crash in between leaves a hold that its next owner gives up.
func (nm *nominator) sendFirstPart(d *nomination, n txns.Nomination) bool {
	a := d.Attempt
	all := n.Victims
	n.Victims, n.Budgets = nil, nil
	var docs []ledger.NodeDoc
	for _, doc := range n.Docs {
		if doc.NodeUID == n.Hold.NodeUID || isAmong(n.Keepers, doc.NodeUID) {
			docs = append(docs, doc)
		}
	}
	n.Docs = docs
	change, err := txns.FormPlan(n, len(all))
	if err == nil {
		d.plan, d.remaining = n.RecordedPlan(), all
		nm.pickFor(a, d.node, &d.Decision)
		if err = nm.slot.Launch(d, change, a); err == nil {
			return true
		}
		nm.unpick(a)
	}
	return nm.handleBuildError(a, err)
}

// isAmong reports whether a list has an entry on a node.
func isAmong(list []txns.NodeEntry, nodeUID string) bool {
	for _, e := range list {
		if e.NodeUID == nodeUID {
			return true
		}
	}
	return false
}

// handleBuildError ends a try that could not be made into a transaction, and returns false. If the state that it was
// decided on has changed (a victim has been claimed, a document is not current, a budget is used up), the attempt is
// deferred; after attempt.MaxLosses such tries, or with any other error, it fails.
func (nm *nominator) handleBuildError(a *attempt.Attempt, err error) bool {
	var claimed *txns.ClaimedError
	var refused *txns.RefusedError
	var budget *txns.BudgetError
	if errors.As(err, &budget) {
		nm.budgets.NoteRefused(budget.UID)
	}
	a.Losses++
	if a.Losses < attempt.MaxLosses && (errors.As(err, &claimed) || errors.As(err, &refused) || errors.As(err, &budget)) {
		nm.budgets.Reread()
		nm.life.Defer(a)
		return false
	}
	nm.life.Fail(a, err.Error())
	return false
}

// pickFor stages an attempt's pod on the node on which a place will be held for it. The pick has no needs and no
// basis: the transaction was built from the documents directly, and is sent at once.
func (nm *nominator) pickFor(a *attempt.Attempt, node *state.Node, d *events.Decision) {
	a.Pick = attempt.Pick{
		NodeUID: node.UID, NodeName: node.Name, Decided: nm.shard.Now, Total: len(nm.shard.View.Nodes()),
		Seed: d.Seed, Evidence: nm.record.NumberVictimSearch(a, d.Evidence, nm.failures.SparedPods()),
		FactSequence: nm.shard.Store.Position().Sequence,
		Volumes:      a.Pick.Volumes,
	}
	nm.shard.View.Stage(a.Pod, node.Name)
}

// unpick takes back what pickFor has staged.
func (nm *nominator) unpick(a *attempt.Attempt) {
	nm.life.Unstage(a)
	a.Pick = attempt.Pick{}
}

// nomination is a T2 in flight. It becomes a hold when it is committed.
type nomination struct {
	seeker
	node    *state.Node
	plan    string
	token   ledger.Token
	victims int
	// remaining are the victims that are claimed later (of a plan with a record).
	remaining []txns.NodeEntry
	yielding  yielding
}

func (n *nomination) Kind() string { return "T2" }

// Done ends the attempt with the decision "nominated", and adds the hold. The hold is added here, and not when the
// watch shows it, because only this shard knows the attempt, the trace and the victims that a large plan must still
// claim. Metrics count such an attempt as unschedulable, as upstream does.
func (n *nomination) Done(revision int64) {
	nm := n.by
	a := n.Attempt
	d := n.Decision
	d.Kind, d.StaleNomination = events.DecisionNominated, ""
	d.Token = a.Offer.Token
	d.Attempt = a.Offer.Attempt
	d.TraceParent = a.Offer.TraceParent
	d.NodeUID = n.node.UID
	d.NodeName = n.node.Name
	d.LedgerRevision = revision
	d.FactSequence, d.Evidence = a.Pick.FactSequence, nm.record.FinalEvidence(a)
	nm.effects.Decide(d)
	report := a.Report(step.Unschedulable)
	report.Nodes, report.Plugins = int(d.NodesTotal), d.Plugins
	for _, v := range victimsOf(nm.shard.Ledger.Plans().Docs(n.plan), n.plan) {
		report.Victims = append(report.Victims, v.PodUID)
	}
	nm.effects.Report(report)
	nm.effects.Plan(step.PlanReport{Event: step.PlanNominated, Pod: a.Offer.Pod, Node: n.node.Name, Victims: n.victims})
	nm.life.Drop(a)
	nm.holds.addHold(&hold{
		podUID: a.Pod.UID, nodeUID: n.node.UID, plan: n.plan, token: n.token,
		attempt: a.Offer.Attempt, traceParent: a.Offer.TraceParent, remaining: n.remaining, yielding: n.yielding,
	})
}

// Undone puts the attempt back. Budgets are read again, because a budget may be what was lost.
func (n *nomination) Undone(lost txns.Outcome) {
	nm := n.by
	nm.budgets.Reread()
	nm.retryLost(n.Attempt, lost)
}

// TooLarge ends the attempt, or gives it back if an earlier copy of the transaction may have been committed: then a
// record of failure could be false.
func (n *nomination) TooLarge(why string) {
	nm := n.by
	if n.Attempt.Doubtful {
		nm.life.GiveBack(n.Attempt)
		return
	}
	nm.life.Fail(n.Attempt, why)
}

// retryLost puts an attempt back whose change of a plan was lost, to be decided once the watch has reached what it
// has lost to. It gives the attempt back to the queue if it has lost too often, if the partition belongs to another
// shard now, or if an earlier copy may have been committed and undone since: its token must not be used again
// (docs/bugs.md, 27).
func (nm *nominator) retryLost(a *attempt.Attempt, lost txns.Outcome) {
	reason := step.LostNode
	switch {
	case len(lost.Partitions) > 0:
		reason = step.LostPartition
	case len(lost.Guards) > 0:
		reason = step.LostGuard
	case len(lost.Budgets) > 0 && len(lost.Docs) == 0:
		reason = step.LostBudget
	case len(lost.Exclusives) > 0 && len(lost.Docs) == 0:
		reason = step.LostVolume
	}
	nm.effects.Report(a.Lost(reason))
	nm.record.Lost(a, reason)
	a.Losses++
	if reason == step.LostPartition || a.Doubtful || a.Losses >= attempt.MaxLosses {
		nm.life.GiveBack(a)
		return
	}
	a.Wait.Revision = max(a.Wait.Revision, txn.LostAt(lost))
	nm.life.Requeue(a)
}
