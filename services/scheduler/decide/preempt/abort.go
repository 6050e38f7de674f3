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

// withdrawal is the reason why a place is given up, with its consequences. Without any of the flags the pod is
// recorded as withdrawn, and is tried again like any other.
type withdrawal struct {
	reason string
	// failed: it counts against the pod when the pod wants other pods evicted again, and against the pairs of owners
	// (failures). spare: its victims cannot be evicted, and are spared for a while.
	failed, spare bool
	// silent: nothing is recorded for the pod, because it is gone or bound.
	silent bool
}

// giveUp sends T8 for a hold: victims that are not being evicted yet are released. A victim that is being evicted
// stays claimed until it is gone, so that no other plan counts on evicting it again; its room is then free for any
// pod. The pod's pins on the pods that it relies on are dropped with the hold.
func (rc *reconciler) giveUp(s holdState, e withdrawal) inspection {
	if s.gang != nil {
		e.failed = e.failed && rc.failures.GatherPause(s.gang, rc.shard.Now) == 0 // once for all members
		rc.failures.GatherFailed(s.gang, rc.shard.Now)
	}
	a := rc.abortOf(s.plan)
	a.Docs = append(a.Docs, rc.docsPinning(s.podUID, a.Docs)...)
	d := &abort{holdState: s, withdrawal: e, victims: victimsOf(a.Docs, s.plan), binding: s.plugins}
	if err := rc.sendAbort(d, a, s.doc.NodeUID); err != nil {
		// No part of it is left, or a document cannot be written: then the binders sweep it.
		rc.effects.Plan(step.PlanReport{
			Event: step.PlanWithdrawn, Pod: podRef(s.entry), Node: s.doc.NodeName, Detail: err.Error(),
		})
		return inspectionWaits
	}
	return inspectionSent
}

// sendAbort sends T8. If the plan is too large for one transaction, or has too many budgets, it sends as much as
// fits, the hold first: from then on the place is free. The rest then has no hold, and is dropped as an orphan. It
// reduces in this order: documents to victimsPerPart, budgets to victimsPerPart, documents by halves, budgets by
// halves, and last the exclusive documents.
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

// abortOf returns the T8 of a plan: its documents, what its hold has of volumes and devices, the budgets that its
// victims have taken from, and its record. Exclusive documents are listed for prepared holds only; what other holds
// have is freed by the next pod that wants it.
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

// docsPinning returns the other documents that record a pod as a dependent of one of their pods. It reads all
// documents: no index is kept for the few holds that are given up.
func (rc *reconciler) docsPinning(podUID string, known []ledger.NodeDoc) []ledger.NodeDoc {
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

// dropOrphan sends T8 for what is left of a plan whose hold was removed without it; true if it was sent. A plan that
// has an owner again is no orphan.
func (rc *reconciler) dropOrphan(plan string) bool {
	if _, _, owned := rc.shard.Ledger.Plans().Owner(plan); owned {
		return false
	}
	// An error means that all of it is being evicted, or gone.
	return rc.sendAbort(&orphan{by: rc, plan: plan}, rc.abortOf(plan), "") == nil
}

// abort is a T8 in flight.
type abort struct {
	holdState
	withdrawal
	// victims are the claims of the plan as the T8 found them, including those that it leaves.
	victims []ledger.Entry
	// binding is the agreement of its plugins, nil for none.
	binding *attempt.PluginBinding
}

func (a *abort) Kind() string { return "T8" }

// Done records the withdrawal. If plugins have refused or failed, the record is the attempt's verdict instead, so
// that the pod waits for what the plugin waits for. A withdrawal of a prepared hold is not reported as one of a
// plan: no pod was to be evicted for it.
func (a *abort) Done(revision int64) {
	rc := a.by
	if a.gang != nil { // the others may have to follow
		m := membersOf(rc.shard, a.gang)
		rc.holds.makeDue(m.held)
	}
	if a.failed && a.pod != nil {
		rc.failures.Record(a.pod, a.victims)
	}
	if a.spare {
		rc.failures.Spare(a.victims)
	}
	rc.budgets.Reread()
	if !txns.IsPrepared(a.plan) {
		rc.effects.Plan(step.PlanReport{
			Event: step.PlanWithdrawn, Pod: podRef(a.entry), Node: a.doc.NodeName, Held: rc.shard.Now.Sub(a.firstSeen),
			Detail: a.reason,
		})
	}
	if a.silent || rc.performing.ReportFailed(a.binding, revision) {
		return
	}
	d := a.decision(events.DecisionWithdrawn)
	if d.Evidence = a.evidence; d.Evidence != nil {
		d.FactSequence = a.factSequence
	}
	d.Message = "The place held for it on node " + a.doc.NodeName + " was given up: " + a.reason + "."
	rc.effects.Decide(d)
}

// Undone may be the answer to a second copy of a transaction that was committed: the verdict is recorded all the
// same.
func (a *abort) Undone(_ txns.Outcome) {
	rc := a.by
	rc.holds.due[a.podUID] = struct{}{}
	if _, e, held := rc.shard.Ledger.Entry(a.podUID); !a.silent && (!held || e.Token != a.token) {
		rc.performing.ReportFailed(a.binding, rc.shard.Ledger.Revision())
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

// Done looks again: a large plan is dropped in several parts.
func (o *orphan) Done(_ int64) {
	rc := o.by
	rc.budgets.Reread()
	rc.holds.orphans[o.plan] = struct{}{}
}

func (o *orphan) TooLarge(string) { o.by.holds.orphans[o.plan] = struct{}{} }

func (o *orphan) Undone(_ txns.Outcome) {
	rc := o.by
	if len(rc.shard.Ledger.Plans().Docs(o.plan)) > 0 {
		rc.holds.orphans[o.plan] = struct{}{}
	}
}
