package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

const (
	// planRecorded is the prefix of the IDs of plans that have a record; planSole is that of plans that are one
	// eviction, which needs no place.
	planRecorded = "large-"
	planSole     = "evict-"
	// planPrepared is the prefix of plans for which no pod is evicted: plugins have to act before the bind.
	planPrepared = "prepare-"
	// preempting follows the scheduler's name in the condition of a pod that it preempts.
	preempting = ": preempting to accommodate"
)

// plans is the walk's state about plans, their victims, and the budgets they claim from.
type plans struct {
	records map[string]ledger.PlanRecord
	budgets map[string]ledger.BudgetDoc
	// marked holds the revisions at which the claim on a pod was marked, by its UID; 0 means before the history.
	marked map[string][]int64
	// schedulers holds the scheduler names of all reservations.
	schedulers map[string]bool
}

func newPlans() plans {
	return plans{
		records: map[string]ledger.PlanRecord{}, budgets: map[string]ledger.BudgetDoc{},
		marked: map[string][]int64{}, schedulers: map[string]bool{},
	}
}

// learnPlan applies one change of a plan's record or a budget's document, without checks.
func (a *replay) learnPlan(ev LedgerEvent) {
	var err error
	if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok {
		delete(a.budgets, uid)
		if !ev.Deleted {
			a.budgets[uid], err = codec.DecodeBudget(ev.KV())
		}
	}
	if id, ok := strings.CutPrefix(ev.Key, ledger.PrefixPlan); ok {
		delete(a.records, id)
		if !ev.Deleted {
			a.records[id], err = codec.DecodePlan(ev.KV())
		}
	}
	if err != nil {
		a.badValue(ev, err)
	}
}

// adoptMarks records the existing marks as made before the history.
func (a *replay) adoptMarks() {
	for _, d := range a.docs {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.State == ledger.Evicting {
				a.marked[e.PodUID] = append(a.marked[e.PodUID], 0)
			}
		}
	}
}

// checkVictims checks the claims of the documents that changed against their previous state. before holds those
// documents; all others are unchanged.
func (a *replay) checkVictims(before map[string]ledger.NodeDoc) {
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		old, now := before[uid], a.docs[uid]
		for _, e := range reservations(now) {
			a.schedulers[e.SchedulerName] = true
			if was, ok := old.Find(e.PodUID); forOthers(e) && (!ok || was.Token != e.Token) {
				a.report.Nominated++
			}
		}
		for _, e := range now.Entries {
			if e.Role == ledger.RoleVictim {
				a.checkVictim(e, old, now, before)
			}
		}
		for _, e := range old.Entries {
			if e.Role == ledger.RoleVictim && e.State == ledger.Evicting && !claims(now, e.PodUID, e.Plan) {
				a.checkUnclaimed(e, now)
			}
		}
	}
}

// forOthers reports whether a place is held until other pods have been evicted.
func forOthers(e ledger.Entry) bool {
	return e.State == ledger.Held && e.Plan != "" && !strings.HasPrefix(e.Plan, planPrepared)
}

// victimOf returns the claim on a pod.
func victimOf(d ledger.NodeDoc, podUID string) (ledger.Entry, bool) {
	i := slices.IndexFunc(d.Entries, func(e ledger.Entry) bool {
		return e.Role == ledger.RoleVictim && e.PodUID == podUID
	})
	if i < 0 {
		return ledger.Entry{}, false
	}
	return d.Entries[i], true
}

func claims(d ledger.NodeDoc, podUID, plan string) bool {
	e, ok := victimOf(d, podUID)
	return ok && e.Plan == plan
}

// checkVictim checks that a pod is claimed by one plan (S5), first without the mark and then with it, and that it
// is marked only while its plan has its place (S9).
func (a *replay) checkVictim(e ledger.Entry, old, now ledger.NodeDoc, before map[string]ledger.NodeDoc) {
	objects := []string{entryObject(e), nodeObject(now.NodeName)}
	was, known := victimOf(old, e.PodUID)
	switch {
	case !known && e.State == ledger.Evicting && !strings.HasPrefix(e.Plan, planSole):
		a.violate("S9", objects, "was claimed and marked for eviction by plan %s in one revision", e.Plan)
	case known && was.Plan != e.Plan:
		a.violate("S5", objects, "is claimed by plan %s although plan %s had claimed it", e.Plan, was.Plan)
	}
	if !known {
		for _, d := range sortedDocs(a.docs) {
			if _, twice := victimOf(d, e.PodUID); twice && d.NodeUID != now.NodeUID {
				a.violate("S5", objects, "is claimed on node %s too", d.NodeName)
			}
		}
	}
	if e.State != ledger.Evicting || known && was.State == ledger.Evicting {
		return
	}
	a.report.Evictions++
	a.marked[e.PodUID] = append(a.marked[e.PodUID], a.revision)
	if strings.HasPrefix(e.Plan, planSole) {
		return
	}
	if !a.hadPlace(e.Plan, before) {
		a.violate("S9", objects, "was marked for eviction by plan %s, which held no place", e.Plan)
	}
	if r := a.records[e.Plan]; strings.HasPrefix(e.Plan, planRecorded) && r.State != ledger.PlanReady {
		a.violate("S9", objects, "was marked for eviction by plan %s, whose record has state %s", e.Plan, r.State)
	}
}

// hadPlace reports whether a place was held or kept for a plan before this revision.
func (a *replay) hadPlace(plan string, before map[string]ledger.NodeDoc) bool {
	for uid, d := range a.docs {
		if old, changed := before[uid]; changed {
			d = old
		}
		if owns(d, plan) {
			return true
		}
	}
	return false
}

func owns(d ledger.NodeDoc, plan string) bool {
	return slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
		place := e.Role == ledger.RoleMove || e.Role == ledger.RoleReservation && e.State == ledger.Held
		return place && e.Plan == plan
	})
}

// checkUnclaimed checks that a marked claim is removed only when its victim has left (S5).
func (a *replay) checkUnclaimed(e ledger.Entry, now ledger.NodeDoc) {
	pod, hw := a.pods[e.PodUID], now.HW[ledger.KindPod]
	if pod == nil && hw >= e.PodRV || pod != nil && pod.ended.maybe(hw) {
		return
	}
	a.violate("S5", []string{entryObject(e), nodeObject(now.NodeName)},
		"its claim by plan %s was removed at high-water mark %d while evictions could still arrive", e.Plan, hw)
}

// checkPreempted checks that every pod with a preemption condition had been claimed and marked (S9).
func (a *replay) checkPreempted() {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		pod := a.pods[uid]
		told, scheduler := pod.preempted()
		if !told.known() || !a.schedulers[scheduler] || told.after == 0 || a.cutOff(told) {
			continue
		}
		f := Finding{Severity: Violation, Invariant: "S9", ResourceVersion: told.rv, Objects: []string{pod.object()}}
		switch marked := a.marked[uid]; {
		case len(marked) == 0 && !a.jumped && !a.ofLost(told):
			f.Message = "was evicted for preemption, but no plan had marked it for eviction"
		case len(marked) > 0 && told.rv <= a.before(slices.Min(marked)):
			f.Revision = slices.Min(marked)
			f.Message = "was evicted for preemption before a plan had marked it for eviction"
		default:
			continue
		}
		a.report.add(f)
	}
}

// before returns a resourceVersion that the API server had certainly reached before a revision.
func (a *replay) before(revision int64) uint64 {
	var rv uint64
	for _, m := range a.marks {
		if m.Until < revision {
			rv = max(rv, m.Objects)
		}
	}
	return rv
}

// preempted returns when a scheduler set the pod's preemption condition, and that scheduler's name.
func (p *podLife) preempted() (at moment, scheduler string) {
	for _, v := range p.versions {
		for _, c := range v.object.pod.Status.Conditions {
			name, _, found := strings.Cut(c.Message, preempting)
			if c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonPreemptionByScheduler && found {
				return v.at, name
			}
		}
	}
	return moment{}, ""
}

// checkBudget checks one revision of a disruption budget's document against the previous one, and against the
// budget (S6, S12).
func (a *replay) checkBudget(old, now ledger.BudgetDoc) {
	key := ledgerObject(ledger.KeyBudget(now.UID))
	for _, kind := range slices.Sorted(maps.Keys(old.HW)) {
		if now.HW[kind] < old.HW[kind] {
			a.violate("S12", []string{key}, "its high-water mark of %ss decreased from %d to %d",
				kind, old.HW[kind], now.HW[kind])
		}
	}
	seen := map[string]bool{}
	claimed := false
	for _, c := range now.Claims {
		if seen[c.PodUID] {
			a.violate("S6", []string{key}, "pod %s is claimed twice", c.PodUID)
		}
		seen[c.PodUID] = true
		if old.Claimed(c.PodUID) {
			continue
		}
		claimed = claimed || !c.Regardless
		if !a.claimedBy(c.PodUID, c.Plan) {
			a.violate("S6", []string{key, a.podNamed(c.PodUID)},
				"has a claim for plan %s, which does not claim the pod", c.Plan)
		}
	}
	for _, c := range old.Claims {
		if !seen[c.PodUID] {
			a.checkSettled(c, now, key)
		}
	}
	if claimed {
		a.checkClaimable(old, now, key)
	}
}

func (a *replay) claimedBy(podUID, plan string) bool {
	for _, d := range a.docs {
		if claims(d, podUID, plan) {
			return true
		}
	}
	return false
}

func (a *replay) podNamed(uid string) string {
	if pod := a.pods[uid]; pod != nil {
		return pod.object()
	}
	return podObject(uid)
}

// checkSettled checks that a claim from a budget is released only when the victim leaves, or when no eviction of it
// can still be in progress (S6).
func (a *replay) checkSettled(c ledger.BudgetClaim, now ledger.BudgetDoc, key string) {
	pod := a.pods[c.PodUID]
	if pod == nil || pod.leaving.maybe(now.HW[ledger.KindBudget]) || pod.ended.maybe(now.HW[ledger.KindBudget]) {
		return
	}
	for _, d := range a.docs {
		if e, ok := victimOf(d, c.PodUID); ok && e.Plan == c.Plan && e.State == ledger.Evicting {
			a.violate("S6", []string{key, pod.object()},
				"its claim was removed at high-water mark %d while evictions could still arrive",
				now.HW[ledger.KindBudget])
		}
	}
}

// checkClaimable checks that, when disruptions are claimed, no more are claimed than the budget allowed at some
// moment since the high-water mark (S6), unless they are claimed regardless of it. Victims that may already have
// been leaving do not count.
func (a *replay) checkClaimable(old, now ledger.BudgetDoc, key string) {
	life := a.pdbs[now.UID]
	if life == nil {
		a.report.note("the history does not contain some disruption budgets that have claims: S6 is not checked for them")
		return
	}
	latest, open := a.latest(a.revision), 0
	for _, c := range now.Claims {
		if pod := a.pods[c.PodUID]; pod == nil || !pod.leaving.maybe(latest) && !pod.ended.maybe(latest) {
			open++
		}
	}
	allowed := 0
	for _, v := range within(life.versions, old.HW[ledger.KindBudget], latest) {
		if v.object.Status.ObservedGeneration >= v.object.Generation {
			allowed = max(allowed, int(v.object.Status.DisruptionsAllowed))
		}
	}
	if open > allowed {
		a.violate("S6", []string{life.object(), key},
			"%d evictions are claimed from it, but it allowed at most %d", open, allowed)
	}
}

// checkBudgets checks the budgets that changed at this revision. before holds their previous state.
func (a *replay) checkBudgets(events []LedgerEvent, before map[string]ledger.BudgetDoc) {
	for _, ev := range events {
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok && !ev.Deleted {
			a.checkBudget(before[uid], a.budgets[uid])
		}
	}
}

// abandoned counts a hold that is removed although pods have been evicted for it, unless another hold took its
// plan.
func (a *replay) abandoned(e ledger.Entry) {
	if e.Plan == "" || a.over(e.PodUID) {
		return
	}
	for _, d := range a.docs {
		if owns(d, e.Plan) {
			return
		}
	}
	for _, d := range a.docs {
		for _, v := range d.Entries {
			if v.Role == ledger.RoleVictim && v.Plan == e.Plan && v.State == ledger.Evicting {
				a.report.Abandoned++
				return
			}
		}
	}
}

// budgetLife is all that a history knows about one disruption budget.
type budgetLife struct {
	name     string // namespace/name
	versions []version[*Budget]
	gone     moment
}

func (b *budgetLife) object() string { return "poddisruptionbudget/" + b.name }

func (a *replay) loadBudget(o Object, at moment) error {
	life := a.pdbs[o.UID]
	if life == nil {
		if o.Budget == nil {
			return fmt.Errorf("disruption budget %s: its first version is missing", o.UID)
		}
		life = &budgetLife{name: o.Budget.Namespace + "/" + o.Budget.Name}
		a.pdbs[o.UID] = life
	}
	switch {
	case o.Gone:
		life.gone = at
	case o.Budget != nil:
		life.versions = append(life.versions, version[*Budget]{at, o.Budget})
	}
	return nil
}
