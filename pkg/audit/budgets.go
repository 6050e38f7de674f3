package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// budgetLaws checks what is claimed from disruption budgets (S6, S12). A budget's document lists the claims of victims
// whose eviction the budget's status does not show yet. What is claimed must not exceed what the status allowed at a
// version that the claiming shard can have seen.
type budgetLaws struct {
	evidence *evidence
	state    *ledgerState
	found    *findings
}

// checkBudgets checks the budgets that changed at this revision. before holds their previous state. A deleted document
// is checkCollected's.
func (l *budgetLaws) checkBudgets(events []recording.LedgerEvent, before map[string]ledger.BudgetDoc) {
	for _, ev := range events {
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok && !ev.Deleted {
			l.checkBudget(before[uid], l.state.budgets[uid])
		}
	}
}

// checkBudget checks one revision of a disruption budget's document against the previous one, and against the budget
// (S6, S12): its high-water marks do not decrease, each new claim has its victim in a node's document at the same
// revision, and released claims are settled. The amount is checked only when something was claimed that is not marked
// as regardless of the budget: a budget that shrinks later makes no revision wrong.
func (l *budgetLaws) checkBudget(old, now ledger.BudgetDoc) {
	key := ledgerObject(ledger.KeyBudget(now.UID))
	for _, kind := range slices.Sorted(maps.Keys(old.HW)) {
		if now.HW[kind] < old.HW[kind] {
			l.found.violate("S12", []string{key}, "its high-water mark of %ss decreased from %d to %d",
				kind, old.HW[kind], now.HW[kind])
		}
	}
	seen := map[string]bool{}
	claimed := false
	for _, c := range now.Claims {
		if seen[c.PodUID] {
			l.found.violate("S6", []string{key}, "pod %s is claimed twice", c.PodUID)
		}
		seen[c.PodUID] = true
		if old.Claimed(c.PodUID) {
			continue
		}
		claimed = claimed || !c.Regardless
		if !l.state.claimedBy(c.PodUID, c.Plan) {
			l.found.violate("S6", []string{key, l.evidence.podNamed(c.PodUID)},
				"has a claim for plan %s, which does not claim the pod", c.Plan)
		}
	}
	for _, c := range old.Claims {
		if !seen[c.PodUID] {
			l.checkSettled(c, now, key)
		}
	}
	if claimed {
		l.checkClaimable(old, now, key)
	}
}

// checkSettled checks that a claim from a budget is released only when the victim leaves, or when no eviction of it
// can still be in progress (S6). The victim must be leaving by the document's high-water mark of budgets: from then on
// the budget's status counts the pod itself.
func (l *budgetLaws) checkSettled(c ledger.BudgetClaim, now ledger.BudgetDoc, key string) {
	pod := l.evidence.pods[c.PodUID]
	if pod == nil || pod.leaving.possibleBy(now.HW[ledger.KindBudget]) || pod.ended.possibleBy(now.HW[ledger.KindBudget]) {
		return
	}
	for _, d := range l.state.docs {
		if e, ok := victimOf(d, c.PodUID); ok && e.Plan == c.Plan && e.State == ledger.Evicting {
			l.found.violate("S6", []string{key, pod.object()},
				"its claim was removed at high-water mark %d while evictions could still arrive",
				now.HW[ledger.KindBudget])
		}
	}
}

// checkClaimable checks that, when disruptions are claimed, no more are claimed than the budget allowed at some moment
// since the high-water mark (S6). Victims that may already have been leaving do not count: the status may or may not
// include them. Nor do claims that this revision makes regardless of the budget. Only versions whose status is about
// their own spec are used (observedGeneration); with others the disruption controller has not answered yet.
func (l *budgetLaws) checkClaimable(old, now ledger.BudgetDoc, key string) {
	history := l.evidence.budgets[now.UID]
	if history == nil {
		l.found.report.note("the history does not contain some disruption budgets that have claims: " +
			"S6 is not checked for them")
		return
	}
	latest, open := l.evidence.timeline.upperBound(l.found.revision), 0
	for _, c := range now.Claims {
		if c.Regardless && !old.Claimed(c.PodUID) {
			continue
		}
		if pod := l.evidence.pods[c.PodUID]; pod == nil || !pod.leaving.possibleBy(latest) && !pod.ended.possibleBy(latest) {
			open++
		}
	}
	allowed := 0
	for _, v := range within(history.versions, old.HW[ledger.KindBudget], latest) {
		if v.object.Status.ObservedGeneration >= v.object.Generation {
			allowed = max(allowed, int(v.object.Status.DisruptionsAllowed))
		}
	}
	if open > allowed {
		l.found.violate("S6", []string{history.object(), key},
			"%d evictions are claimed from it, but it allowed at most %d", open, allowed)
	}
}
