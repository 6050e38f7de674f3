package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// end is the reason why a place is given up, with its consequences.
type end struct {
	reason string
	// failed: it counts against the pod when the pod wants other pods evicted again. spare: its victims cannot be
	// evicted, and are spared for a while.
	failed, spare bool
	// silent: nothing is recorded for the pod.
	silent bool
}

// giveUp sends T8 for a hold: victims that are not being evicted yet are released. A victim that is being evicted
// stays claimed until it is gone; its room is then free for any pod.
func (rc *reconciler) giveUp(s standing, e end) look {
	a := rc.abortOf(s.plan)
	a.Docs = append(a.Docs, rc.pinning(s.podUID, a.Docs)...)
	d := &abort{standing: s, end: e, victims: victimsOf(a.Docs, s.plan), refused: s.deal}
	if err := rc.sendAbort(d, a, s.doc.NodeUID); err != nil {
		// No part of it is left, or a document cannot be written: then the binders sweep it.
		rc.effects.Plan(step.PlanReport{
			What: step.PlanWithdrawn, Pod: refOf(s.entry), Node: s.doc.NodeName, Detail: err.Error(),
		})
		return lookLater
	}
	return lookSent
}

// sendAbort sends T8. If the plan is too large for one transaction, or has too many budgets, it sends as much as
// fits, the hold first. The rest then has no hold, and is dropped as an orphan.
func (rc *reconciler) sendAbort(d txn.Proposal, a txns.Abort, holdNode string) error {
	change, err := txns.AbortPlan(a)
	if err == nil {
		err = rc.slot.Launch(d, change)
	}
	if !txn.IsTooLarge(err) {
		return err
	}
	docs := min(len(a.Docs), victimsPerPart)
	switch {
	case docs < len(a.Docs):
	case a.MaxBudgets == 0:
		a.MaxBudgets = victimsPerPart
	case docs > 1:
		docs /= 2
	case a.MaxBudgets > 1:
		a.MaxBudgets /= 2
	case len(a.Exclusives) > 0:
		a.Exclusives = nil // the next pod that wants them frees them
	default:
		return err
	}
	slices.SortStableFunc(a.Docs, func(x, y ledger.NodeDoc) int {
		switch holdNode {
		case x.NodeUID:
			return -1
		case y.NodeUID:
			return 1
		}
		return 0
	})
	a.Docs = a.Docs[:docs]
	return rc.sendAbort(d, a, holdNode)
}

func (rc *reconciler) abortOf(plan string) txns.Abort {
	a := txns.Abort{Plan: plan, Docs: rc.shard.Ledger.Plans().Docs(plan)}
	if _, e, owned := rc.shard.Ledger.Plans().Owner(plan); owned && txns.IsPrepared(plan) {
		a.Exclusives = rc.shard.HeldBy(e.Token)
	}
	for _, e := range victimsOf(a.Docs, plan) {
		for _, uid := range e.Budgets {
			if !slices.ContainsFunc(a.Budgets, func(b ledger.BudgetDoc) bool { return b.UID == uid }) {
				a.Budgets = append(a.Budgets, rc.shard.Ledger.Budgets().Of(uid))
			}
		}
	}
	if r, ok := rc.shard.Ledger.Plans().Record(plan); ok {
		a.Record = &r
	}
	return a
}

func victimsOf(docs []ledger.NodeDoc, plan string) []ledger.Entry {
	var out []ledger.Entry
	for _, d := range docs {
		out = append(out, d.Victims(plan)...)
	}
	return out
}

// pinning returns the other documents that record a pod as a dependent of one of their pods.
func (rc *reconciler) pinning(podUID string, known []ledger.NodeDoc) []ledger.NodeDoc {
	relies := func(x ledger.Dependent) bool { return x.PodUID == podUID }
	var out []ledger.NodeDoc
	for d := range rc.shard.Ledger.Docs() {
		if slices.ContainsFunc(known, func(k ledger.NodeDoc) bool { return k.NodeUID == d.NodeUID }) {
			continue
		}
		for i := range d.Entries {
			if slices.ContainsFunc(d.Entries[i].Dependents, relies) {
				out = append(out, d)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b ledger.NodeDoc) int { return strings.Compare(a.NodeUID, b.NodeUID) })
	return out
}

// dropOrphan sends T8 for what is left of a plan whose hold was removed without it.
func (rc *reconciler) dropOrphan(plan string) bool {
	if _, _, owned := rc.shard.Ledger.Plans().Owner(plan); owned {
		return false
	}
	// An error means that all of it is being evicted, or gone.
	return rc.sendAbort(&orphan{by: rc, plan: plan}, rc.abortOf(plan), "") == nil
}

// abort is a T8 in flight.
type abort struct {
	standing
	end
	victims []ledger.Entry
	// refused is the deal of its plugins, nil for none.
	refused *attempt.Deal
}

func (a *abort) Kind() string { return "T8" }

func (a *abort) Done(revision int64) {
	rc := a.by
	if a.failed && a.pod != nil {
		rc.loops.failed(a.pod, a.victims)
	}
	if a.spare {
		rc.loops.spare(a.victims)
	}
	rc.budgets.stale = true
	if !txns.IsPrepared(a.plan) {
		rc.effects.Plan(step.PlanReport{
			What: step.PlanWithdrawn, Pod: refOf(a.entry), Node: a.doc.NodeName, Held: rc.shard.Now.Sub(a.since),
			Detail: a.reason,
		})
	}
	if a.silent || rc.performing.ReportFailed(a.refused, revision) {
		return
	}
	d := a.decision(events.DecisionWithdrawn)
	d.Message = "The place held for it on node " + a.doc.NodeName + " was given up: " + a.reason + "."
	rc.effects.Decide(d)
}

// Undone may be the answer to a second copy of a transaction that was committed: the verdict is recorded all the
// same.
func (a *abort) Undone(_ txns.Outcome) {
	rc := a.by
	rc.holds.due[a.podUID] = struct{}{}
	if _, e, held := rc.shard.Ledger.Entry(a.podUID); !a.silent && (!held || e.Token != a.token) {
		rc.performing.ReportFailed(a.refused, rc.shard.Ledger.Revision())
	}
}

// TooLarge makes the hold due: the next try is smaller if possible; otherwise the binders sweep it.
func (a *abort) TooLarge(string) { a.by.holds.due[a.podUID] = struct{}{} }

// orphan is the T8 of a plan without a hold.
type orphan struct {
	by   *reconciler
	plan string
}

func (o *orphan) Kind() string { return "T8" }

func (o *orphan) Done(_ int64) {
	rc := o.by
	rc.budgets.stale = true
	rc.holds.orphans[o.plan] = struct{}{}
}

func (o *orphan) TooLarge(string) { o.by.holds.orphans[o.plan] = struct{}{} }

func (o *orphan) Undone(_ txns.Outcome) {
	rc := o.by
	if len(rc.shard.Ledger.Plans().Docs(o.plan)) > 0 {
		rc.holds.orphans[o.plan] = struct{}{}
	}
}

func refOf(e ledger.Entry) events.PodRef {
	return events.PodRef{UID: e.PodUID, Namespace: e.Namespace, Name: e.Name}
}
