package txns

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Abort is T8 (abort plan): a plan, or part of it, is given up.
type Abort struct {
	Plan string
	// Docs are the documents that contain entries of the plan (Plans.Docs), as read: the hold or placeholder and
	// victims, and any documents that pin for the hold's pod.
	Docs []ledger.NodeDoc
	// Budgets are those that victims without Evicting are claimed from; Exclusives are those of which the hold
	// holds something. As read.
	Budgets    []ledger.BudgetDoc
	Exclusives []ledger.ExclusiveDoc
	// Record is the record of a recorded plan, as read. With it, Docs need not be complete: the rest of an aborted
	// plan is dropped by SweepDoc, or by another AbortPlan.
	Record *ledger.PlanRecord
	// Only limits the abort to the claims on these victims; the plan lives on. Nil drops the whole plan.
	Only []string
	// MaxBudgets bounds how many budget documents are changed, 0 for no bound. Claims that would exceed it (the
	// first is dropped in any case) are left to another AbortPlan.
	MaxBudgets int

	left map[string]bool
}

const stepAbort = "T8 abort"

// AbortPlan builds T8. It drops the hold (or placeholder) with its pins and with the volumes and pools it holds,
// the claims on victims that are not Evicting, and their budget claims. Victims that are Evicting stay claimed
// until they are gone or their eviction has failed. It returns a *RefusedError if a budget's document is missing,
// or nothing is left to drop.
//
// Compares: n/<uid>.ModRevision of the documents, b/<uid>.ModRevision, x/, plan/<id>. Puts: the same. Any member
// may do it, because it rests on the compares alone. A crash before it leaves the plan, which SweepDoc finds again;
// after it the pod, if there is one, is free to be decided.
func AbortPlan(a Abort) (Change, error) {
	var c Change
	var budgets []string
	claims := map[string][]string{}
	var holds []ledger.Entry
	a.left = a.tooMany()
	for _, d := range a.Docs {
		next, gone := a.without(d)
		for _, e := range gone {
			if e.Role != ledger.RoleVictim {
				holds = append(holds, e)
			}
			for _, uid := range e.Budgets {
				budgets = append(budgets, uid)
				claims[uid] = append(claims[uid], e.PodUID)
			}
		}
		if len(gone) > 0 {
			c.Docs = append(c.Docs, next)
		}
	}
	for _, h := range holds {
		c.Docs = unpinFor(c.Docs, a.Docs, h.PodUID)
		for _, x := range a.Exclusives {
			if freed, had := x.ReleaseHolder(h.Token); had {
				c.Exclusives = append(c.Exclusives, freed)
			}
		}
	}
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(budgets))) {
		i := slices.IndexFunc(a.Budgets, func(b ledger.BudgetDoc) bool { return b.UID == uid })
		if i < 0 {
			return Change{}, &RefusedError{Step: stepAbort, PodUID: claims[uid][0],
				Reason: "it is claimed from disruption budget " + uid + ", which is not given"}
		}
		b := a.Budgets[i]
		for _, pod := range claims[uid] {
			b, _ = UnclaimBudget(b, pod, Failure{})
		}
		// It is included even if it has no such claim: it may be older than the documents, and then the transaction
		// must lose.
		c.Budgets = append(c.Budgets, b)
	}
	if a.Record != nil && a.Only == nil && (a.Record.State == ledger.PlanForming || a.Record.State == ledger.PlanReady) {
		c.Plans = []ledger.PlanRecord{a.Record.To(ledger.PlanAborted)}
	}
	if len(c.Docs)+len(c.Plans) == 0 {
		return Change{}, &RefusedError{Step: stepAbort, Reason: "nothing is left of plan " + a.Plan}
	}
	return c, nil
}

// without returns a document without what the abort drops, and the dropped entries.
func (a Abort) without(d ledger.NodeDoc) (next ledger.NodeDoc, gone []ledger.Entry) {
	var kept []ledger.Entry
	for _, e := range d.Entries {
		if a.drops(e) {
			gone = append(gone, e)
			continue
		}
		kept = append(kept, e)
	}
	if len(gone) == 0 {
		return d, nil
	}
	d = d.Clone()
	d.Entries = kept
	return d, gone
}

func (a Abort) drops(e ledger.Entry) bool {
	if a.Plan == "" || e.Plan != a.Plan {
		return false
	}
	if e.Role == ledger.RoleVictim {
		return e.State != ledger.Evicting && !a.left[e.PodUID] && (a.Only == nil || slices.Contains(a.Only, e.PodUID))
	}
	return a.Only == nil && e.OwnsPlan()
}

// tooMany returns the victims whose claims are left because of MaxBudgets.
func (a Abort) tooMany() map[string]bool {
	if a.MaxBudgets == 0 {
		return nil
	}
	left, count := map[string]bool{}, budgetCount{most: a.MaxBudgets, weight: a.budgetWeight}
	for _, d := range a.Docs {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && a.drops(e) && !count.takes(e) {
				left[e.PodUID] = true
			}
		}
	}
	return left
}

func (a Abort) budgetWeight(uid string) int {
	for _, b := range a.Budgets {
		if b.UID == uid {
			return b.Weight()
		}
	}
	return 0
}

// budgetCount counts the disruption budgets on which one change has claims, and their bytes.
type budgetCount struct {
	most   int
	weight func(uid string) int
	bytes  int
	seen   map[string]bool
}

// budgetBytes is how much of a transaction the budgets of one change may use at most.
const budgetBytes = ledger.MaxTxnBytes / 2

// takes reports whether the change includes a claim, and if so counts its budgets. The first claim is always
// included.
func (b *budgetCount) takes(e ledger.Entry) bool {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	more, bytes := 0, 0
	for _, uid := range e.Budgets {
		if !b.seen[uid] {
			more++
			bytes += b.weight(uid)
		}
	}
	if len(b.seen) > 0 && (len(b.seen)+more > b.most || b.bytes+bytes > budgetBytes) {
		return false
	}
	b.bytes += bytes
	for _, uid := range e.Budgets {
		b.seen[uid] = true
	}
	return true
}

// unpinFor adds to changed the documents that pin for a pod, without those pins.
func unpinFor(changed, all []ledger.NodeDoc, podUID string) []ledger.NodeDoc {
	for _, d := range all {
		set := docSet{docs: changed}
		at := set.at(d.NodeUID)
		if at >= 0 {
			d = changed[at]
		}
		next, found := dropDependent(d, podUID)
		switch {
		case !found:
		case at >= 0:
			changed[at] = next
		default:
			changed = append(changed, next)
		}
	}
	return changed
}

// dropDependent returns a document in which the pod relies on no pinned pod any more.
func dropDependent(d ledger.NodeDoc, podUID string) (next ledger.NodeDoc, found bool) {
	relies := func(x ledger.Dependent) bool { return x.PodUID == podUID }
	var kept []ledger.Entry
	for _, e := range d.Entries {
		if e.Role == ledger.RoleKeeper && slices.ContainsFunc(e.Dependents, relies) {
			found = true
			e.Dependents = slices.DeleteFunc(slices.Clone(e.Dependents), relies)
			if len(e.Dependents) == 0 {
				continue
			}
		}
		kept = append(kept, e)
	}
	if !found {
		return d, false
	}
	d = d.Clone()
	d.Entries = kept
	return d, true
}
