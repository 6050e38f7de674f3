package txns

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// A plan that is too large for one transaction is made in several, with a record that decides for all of them at
// once:
//
//     FormPlan     the record, Forming, and the hold
//     ExtendPlan   as often as needed: claims on victims and on their budgets
//     FinishPlan   the record becomes Ready; from here on the claims count
//
// ExtendPlan and FinishPlan compare the record, so that neither commits once another member has aborted the plan:
// its owner, a shard that displaces the hold, or a binder that finds it unchanged for long. Until the record is
// Ready its claims only keep other plans off the victims: MarkEvicting refuses, and the future test counts the
// victims.

const (
	stepForm   = "T2 form plan"
	stepExtend = "T2 extend plan"
	stepFinish = "T2 finish plan"
)

// RecordedPlan returns the id of the plan that FormPlan starts for this nomination.
func (n Nomination) RecordedPlan() string { return ledger.PlanID(n.Hold.Entry.Token, true) }

// FormPlan is the first transaction of a large T2: it does the same as Nominate, with as many of the victims as fit
// (or none), and adds the plan's record. victims is the number of victims the plan will have in all.
//
// Compares and puts: those of Nominate, and plan/<id>, which must not exist. A crash after it, or after any
// ExtendPlan, leaves a Forming plan: the partition's next owner aborts it, or any binder when it has not changed
// for long.
func FormPlan(n Nomination, victims int) (Change, error) {
	plan := n.RecordedPlan()
	if victims < len(n.Victims) || victims == 0 {
		return Change{}, &RefusedError{Step: stepForm, PodUID: n.Hold.Entry.PodUID, Reason: "nothing has to go for it"}
	}
	c, err := n.build(plan)
	if err != nil {
		return Change{}, err
	}
	c.Plans = []ledger.PlanRecord{n.forming(victims)}
	return c, nil
}

// forming returns the first record of a plan that will have so many victims.
func (n Nomination) forming(victims int) ledger.PlanRecord {
	return ledger.PlanRecord{
		ID: n.RecordedPlan(), State: ledger.PlanForming, NodeUID: n.Hold.NodeUID, PodUID: n.Hold.Entry.PodUID,
		Shard: n.Hold.Entry.Shard, Victims: victims,
	}
}

// Extension is one more transaction of a large T2.
type Extension struct {
	Authority
	// Record is the plan's record, as the last transaction left it.
	Record  ledger.PlanRecord
	Victims []NodeEntry
	// Docs and Budgets are those of the victims, as read.
	Docs    []ledger.NodeDoc
	Budgets []BudgetRoom
	Facts   ClaimFacts
}

// ExtendPlan claims more victims for a forming plan. If its answer is lost, the documents show the outcome: if they
// contain this plan's claims it has been applied, and building it again returns a *ClaimedError.
//
// Compares: own/<p>.CreateRevision; t/reg; plan/<id>.ModRevision; n/<uid>, b/<uid> and b/ns/<namespace>
// .ModRevision. Puts: n/<uid>, b/<uid>, b/ns/<namespace>.
func ExtendPlan(x Extension) (Change, error) {
	if x.Record.State != ledger.PlanForming || len(x.Victims) == 0 {
		return Change{}, &RefusedError{Step: stepExtend,
			Reason: "plan " + x.Record.ID + " is not forming, or there are no victims"}
	}
	if err := upToDate(stepExtend, x.Docs, x.Facts); err != nil {
		return Change{}, err
	}
	set := docSet{step: stepExtend, docs: append([]ledger.NodeDoc(nil), x.Docs...)}
	budgets, err := set.claim(x.Victims, x.Record.ID, x.Budgets, x.Facts)
	if err != nil {
		return Change{}, err
	}
	return Change{
		Authority: &x.Authority, Docs: set.docs, Budgets: budgets, UnchangedPlans: []ledger.PlanRecord{x.Record},
	}, nil
}

// FinishPlan makes a forming plan Ready. claimed is how many victims the documents claim for it (Plans.Docs, in
// a view at or past the last ExtendPlan). hold is the document of the hold, which must be there. It returns a
// *RefusedError if either condition is not met.
//
// Compares: own/<p>.CreateRevision; t/reg; plan/<id>.ModRevision; n/<uid>.ModRevision of the
// hold. Puts: plan/<id>. A crash before it leaves a Forming plan, after it a plan like that of
// a T2.
func FinishPlan(m Authority, record ledger.PlanRecord, hold ledger.NodeDoc, claimed int) (Change, error) {
	e, ok := hold.Owner(record.ID)
	if !ok || hold.NodeUID != record.NodeUID || record.State != ledger.PlanForming || claimed != record.Victims {
		return Change{}, &RefusedError{Step: stepFinish, NodeUID: hold.NodeUID,
			Reason: "plan " + record.ID + " is not forming, has lost its hold, or does not claim all of its victims"}
	}
	if err := m.covers(stepFinish, e); err != nil {
		return Change{}, err
	}
	return Change{
		Authority: &m, Unchanged: []ledger.NodeDoc{hold}, Plans: []ledger.PlanRecord{record.To(ledger.PlanReady)},
	}, nil
}

// DropPlan removes the record of a plan that has ended, when no document of a view at or past the record's revision
// refers to it any more; otherwise it returns a *RefusedError.
//
// Compares and deletes: plan/<id>. A crash has no effect that matters. The id is never used again, and no
// transaction that compares the record can commit.
func DropPlan(record ledger.PlanRecord, picture *replica.View) (Change, error) {
	if record.State != ledger.PlanAborted && record.State != ledger.PlanDone || picture.Revision() < record.Revision ||
		len(picture.Plans().Docs(record.ID)) > 0 {
		return Change{}, &RefusedError{Step: "plan drop", NodeUID: record.NodeUID,
			Reason: "plan " + record.ID + " has not ended, or parts of it remain"}
	}
	return Change{DroppedPlans: []ledger.PlanRecord{record}}, nil
}
