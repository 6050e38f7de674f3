package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Relocation is T12 (move): a running pod is evicted because there is a better place for its replacement.
type Relocation struct {
	// Placeholder is the entry that keeps the place, and its node. It becomes a Move under the plan of its token.
	// PodUID is the victim's, Replacement describes the pod that may take the place over, and Requests, Ports and
	// Priority describe the replacement.
	Placeholder NodeEntry
	// Victim is the pod that is moved, with its PodRV and all disruption budgets that cover it.
	Victim NodeEntry
	// Docs are the documents of both nodes, as read (or after applying Finish).
	Docs    []ledger.NodeDoc
	Budgets []BudgetRoom
	Facts   ClaimFacts
}

// Plan returns the id of the plan that the move starts.
func (m Relocation) Plan() string { return ledger.PlanID(m.Placeholder.Entry.Token, false) }

const stepMove = "T12 move"

// Relocate builds T12. The placeholder counts against every pod like a hold of its priority. The victim's claim and
// its budget claims are as in T2, and so is MarkEvicting before the eviction.
//
// Compares and puts: n/<uid> of the place and of the victim's node, b/<uid> of the budgets and b/ns/<namespace>. A
// crash before it leaves nothing; after it a placeholder and a claim, which any member may drop when they have not
// changed for long (AbortPlan). Errors are those of Nominate.
func Relocate(m Relocation) (Change, error) {
	place, victim := m.Placeholder.Entry, m.Victim.Entry
	if place.Token == 0 || place.Replacement.Owner == "" || place.Replacement.Template == "" {
		return Change{}, &RefusedError{Step: stepMove, NodeUID: m.Placeholder.NodeUID, PodUID: victim.PodUID,
			Reason: fmt.Sprintf("token %s for %+v: want a token and whose replacement it is", place.Token, place.Replacement)}
	}
	if err := upToDate(stepMove, m.Docs, m.Facts); err != nil {
		return Change{}, err
	}
	place.Role = ledger.RoleMove
	place.State = 0
	place.Plan = m.Plan()
	place.PodUID = victim.PodUID
	set := docSet{step: stepMove, docs: slices.Clone(m.Docs)}
	budgets, err := set.claim([]NodeEntry{m.Victim}, place.Plan, m.Budgets, m.Facts)
	if err != nil {
		return Change{}, err
	}
	err = set.change(m.Placeholder.NodeUID, place.PodUID, func(d ledger.NodeDoc) (ledger.NodeDoc,
		error) {
		return Place(d, place)
	})
	if err != nil {
		return Change{}, err
	}
	return Change{Docs: set.docs, Budgets: budgets, Marker: Marker{NodeUID: m.Placeholder.NodeUID, Token: place.Token}},
		nil
}

// TakeOver is Place for the pod that a placeholder is for: its reservation takes the placeholder's room, as part of
// T1. It returns a *RefusedError if the document has no placeholder for such a pod. If it has several, TakeOver
// takes the one under the token if that still exists, else the oldest: two pods of one template are
// interchangeable.
//
// A replacement is in the namespace of the pod that is moved, as their owner is: any pod author may write the UID
// of another namespace's owner into a pod.
//
// What is left of the plan is the victim's claim, which ends like that of any plan without an owner: a victim that
// is not Evicting at that time is not evicted any more. So the token should be that of a place whose victim is
// leaving: then the victims of the other placeholders can still be evicted.
func TakeOver(d ledger.NodeDoc, r ledger.Replacement, token ledger.Token, e ledger.Entry) (ledger.NodeDoc, error) {
	kept := func(m *ledger.Entry) bool {
		return m.Role == ledger.RoleMove && m.Replacement == r && m.Namespace == e.Namespace
	}
	i := slices.IndexFunc(d.Entries, func(m ledger.Entry) bool { return kept(&m) && m.Token == token })
	if i < 0 {
		i = slices.IndexFunc(d.Entries, func(m ledger.Entry) bool { return kept(&m) })
	}
	if i < 0 || r == (ledger.Replacement{}) {
		return ledger.NodeDoc{}, &RefusedError{Step: "T1 take over", NodeUID: d.NodeUID, PodUID: e.PodUID,
			Reason: fmt.Sprintf("no place is kept for %+v in namespace %q", r, e.Namespace)}
	}
	d = d.Clone()
	d.Entries = slices.Delete(d.Entries, i, i+1)
	return Place(d, e)
}

// DisplacePlaceholder is Place for a pod of strictly higher priority than the one a placeholder is for: its
// reservation takes the kept room, as part of T1. It returns a *RefusedError if no place is kept under the token, or
// if the pod's priority is not higher.
//
// The rest of the plan ends as after TakeOver.
func DisplacePlaceholder(d ledger.NodeDoc, token ledger.Token, e ledger.Entry) (ledger.NodeDoc, error) {
	const step = "T1 oust"
	i := slices.IndexFunc(d.Entries, func(m ledger.Entry) bool { return m.Role == ledger.RoleMove && m.Token == token })
	if i < 0 {
		return ledger.NodeDoc{}, &RefusedError{Step: step, NodeUID: d.NodeUID, PodUID: e.PodUID,
			Reason: "no place is kept under token " + token.String()}
	}
	if m := d.Entries[i]; e.Priority <= m.Priority {
		return ledger.NodeDoc{}, &RefusedError{Step: step, NodeUID: d.NodeUID, PodUID: e.PodUID,
			Reason: fmt.Sprintf("the place is kept for a pod of priority %d, and its own is %d", m.Priority, e.Priority)}
	}
	d = d.Clone()
	d.Entries = slices.Delete(d.Entries, i, i+1)
	return Place(d, e)
}
