package txns

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// A gang for which pods must be evicted gets its places one after the other, and then all at once what they are for:
//
//     FormMember        a hold with its victims, if any; its record stays Forming
//     FinishPlans       all records become Ready: only from here on are victims evicted
//     PromoteTogether   all holds become reservations that can be bound
//
// Each member has a plan of its own, which is given up like any other (AbortPlan). The owner of the gang's partition
// gives up the rest of them if too few are left.

const (
	stepFinishPlans = "T2 finish plans"
	stepTogether    = "T3 promote together"
)

// FitsTogether reports whether FinishPlans and PromoteTogether of so many members on so many nodes, without guards, fit
// in a transaction each: they have an operation for each record and each document, and a few others.
func FitsTogether(members, nodes int) bool {
	const others = 4 // the epoch, the registry, and two in reserve
	return members+nodes+others <= ledger.MaxTxnOps
}

// FormMember is a T2 for a member of a gang: FormPlan with all victims, of which there may be none. If no pod has to go
// for the member, the place is held until the others have theirs. Its errors are those of FormPlan.
func FormMember(n Nomination) (Change, error) {
	c, err := n.build(n.RecordedPlan())
	if err != nil {
		return Change{}, err
	}
	c.Plans = []ledger.PlanRecord{n.forming(len(n.Victims))}
	return c, nil
}

// FormedPlan is a plan of FormMember, and the document with its hold.
type FormedPlan struct {
	Record ledger.PlanRecord
	Hold   ledger.NodeDoc
}

// FinishPlans makes the plans of a gang's members Ready, all at once. A claim that is gone was handed over, as its
// victim has left: FormMember has claimed all victims. holds are the documents of all members' holds, also those whose
// plans are Ready. It returns a *RefusedError if a plan is not forming, or has lost its hold.
//
// Compares: own/<p>.CreateRevision; t/reg; plan/<id>.ModRevision; n/<uid>.ModRevision of all holds. Puts: plan/<id>. A
// crash before it leaves Forming plans, after it plans like those of a T2.
func FinishPlans(m Authority, plans []FormedPlan, holds []ledger.NodeDoc) (Change, error) {
	if len(plans) == 0 {
		return Change{}, &RefusedError{Step: stepFinishPlans, Reason: "no plan is forming"}
	}
	all := Change{Authority: &m}
	for _, p := range plans {
		c, err := FinishPlan(m, p.Record, p.Hold, p.Record.Victims)
		if err != nil {
			return Change{}, err
		}
		all.Plans = append(all.Plans, c.Plans...)
		holds = append(slices.Clone(holds), c.Unchanged...)
	}
	for _, d := range holds {
		if !slices.ContainsFunc(all.Unchanged, func(o ledger.NodeDoc) bool { return o.NodeUID == d.NodeUID }) {
			all.Unchanged = append(all.Unchanged, d)
		}
	}
	return all, nil
}

// PromoteTogether is a T3 for all members of a gang: each promotion as by Promote, all at one revision or none of them.
// Fits of each must count the others. Claims to volumes and devices are refused (*RefusedError), as what one member
// gets may be what another one lets go.
//
// Compares and puts: those of all promotions. A crash before it leaves the holds, after it any binder binds.
func PromoteTogether(list []Promotion) (Change, error) {
	var all Change
	docs := docSet{step: stepTogether}
	for _, p := range list {
		if len(p.Exclusives) > 0 {
			return Change{}, &RefusedError{Step: stepTogether, PodUID: p.PodUID, Reason: "a member has claims"}
		}
		p.Target = docs.latest(p.Target)
		p.Docs = slices.Clone(p.Docs)
		for i := range p.Docs {
			p.Docs[i] = docs.latest(p.Docs[i])
		}
		c, err := Promote(p)
		if err != nil {
			return Change{}, err
		}
		docs.put(c.Docs...)
		all.Plans = append(all.Plans, c.Plans...)
		all.Guards = append(all.Guards, c.Guards...)
		if all.Authority == nil {
			all.Authority, all.Marker = c.Authority, c.Marker
		}
	}
	all.Docs = docs.docs
	return all, nil
}
