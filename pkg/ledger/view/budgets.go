package view

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Budgets reads disruption budgets as a claim uses them, from the facts and the ledger.
type Budgets struct {
	facts  *state.Snapshot
	ledger *replica.View
}

// BudgetsOf returns the budgets for a reader that has no View.
func BudgetsOf(facts *state.Snapshot, l *replica.View) Budgets {
	return Budgets{facts: facts, ledger: l}
}

// Room returns a disruption budget as a claim uses it: what the status allows, if it is up to date with the spec, what
// has been claimed, and which pods are healthy. It counts the pods whether or not anything was ever claimed: the
// status may be older than the end of some of them. Its cost is proportional to the number of pods in the namespace.
func (b Budgets) Room(pdb *policyv1.PodDisruptionBudget) txns.BudgetRoom {
	r := b.byStatus(pdb)
	b.countPods(&r, pdb)
	return r
}

// Estimate is Room for a search over all budgets: it counts pods only where something is or was claimed. It may
// find more room than a claim will.
func (b Budgets) Estimate(pdb *policyv1.PodDisruptionBudget) txns.BudgetRoom {
	r := b.byStatus(pdb)
	// Claimed from, possibly before it was collected, or from another budget that covered the same pods.
	if r.Doc.Revision > 0 || len(r.Doc.HW) > 0 || b.ledger.Plans().HasVictimsIn(pdb.Namespace) {
		b.countPods(&r, pdb)
	}
	return r
}

// byStatus returns a budget without its pods.
func (b Budgets) byStatus(pdb *policyv1.PodDisruptionBudget) txns.BudgetRoom {
	r := txns.BudgetRoom{Doc: b.ledger.Budgets().Of(string(pdb.UID)), Allowed: state.DisruptionsAllowed(pdb)}
	r.Doc.UID = string(pdb.UID)
	r.Doc.Namespace = pdb.Namespace
	r.Doc.Name = pdb.Name
	r.Shared, r.Ahead = b.ledger.Budgets().Shared(pdb.Namespace)
	return r
}

// Spare returns how many of a budget's pods are healthy, not claimed, and not needed, whether or not anything was
// ever claimed from it: Room uses this number after the next claim. Its cost is proportional to the number of pods
// in the namespace.
func (b Budgets) Spare(pdb *policyv1.PodDisruptionBudget) int {
	r := txns.BudgetRoom{Doc: b.ledger.Budgets().Of(string(pdb.UID))}
	b.countPods(&r, pdb)
	return r.Spare()
}

// countPods examines the pods of a budget: those that the disruption controller would count as healthy, and those
// that are claimed as victims, though not from this budget. A selector that cannot be parsed covers no pod, as in
// preempt.NewBudgets.
func (b Budgets) countPods(r *txns.BudgetRoom, pdb *policyv1.PodDisruptionBudget) {
	r.Count = &txns.BudgetCount{Desired: pdb.Status.DesiredHealthy}
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		return
	}
	claimed := b.ledger.Plans().HasVictimsIn(pdb.Namespace)
	for p := range b.facts.PodsIn(pdb.Namespace) {
		if !p.Selectable() || p.Terminal || !state.MayMatch(selector, p.Template.Labels) {
			continue
		}
		if claimed {
			_, e, victim := b.ledger.Plans().Victim(p.UID)
			if victim && !slices.Contains(e.Budgets, r.Doc.UID) && !r.Doc.Claimed(p.UID) {
				r.Others = append(r.Others, ledger.BudgetClaim{PodUID: p.UID, PodRV: e.PodRV, Plan: e.Plan})
			}
		}
		if !p.Deleting && p.Ready() && state.MustMatch(selector, p.Template.Labels) {
			r.Count.Healthy = append(r.Count.Healthy, p.UID)
		}
	}
}
