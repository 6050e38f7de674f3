package audit

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// planLaws checks the victims of plans (S5, S9), and the places that are kept for moves.
type planLaws struct {
	evidence    *evidence
	state       *ledgerState
	generations *generations
	found       *findings
	// marked holds the revisions at which the claim on a pod was marked, by its UID; 0 means before the history.
	marked map[string][]int64
	// schedulers holds the scheduler names of all reservations.
	schedulers map[string]bool
}

// adoptMarks records the existing marks as made before the history.
func (l *planLaws) adoptMarks() {
	for _, d := range l.state.docs {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.State == ledger.Evicting {
				l.marked[e.PodUID] = append(l.marked[e.PodUID], 0)
			}
		}
	}
}

// checkVictims checks the claims of the documents that changed against their previous state. before holds those
// documents; all others are unchanged.
func (l *planLaws) checkVictims(before map[string]ledger.NodeDoc) {
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		old, now := before[uid], l.state.docs[uid]
		for _, e := range reservations(now) {
			l.schedulers[e.SchedulerName] = true
			if was, ok := old.Find(e.PodUID); forOthers(e) && (!ok || was.Token != e.Token) {
				l.found.report.Nominated++
			}
		}
		for _, e := range now.Entries {
			if e.Role == ledger.RoleVictim {
				l.checkVictim(e, old, now, before)
			}
		}
		for _, e := range old.Entries {
			if e.Role == ledger.RoleVictim && e.State == ledger.Evicting && !claimsVictim(now, e.PodUID, e.Plan) {
				l.checkUnclaimed(e, now)
			}
		}
	}
}

// checkVictim checks that a pod is claimed by one plan (S5), first without the mark and then with it, and that it
// is marked only while its plan has its place (S9).
func (l *planLaws) checkVictim(e ledger.Entry, old, now ledger.NodeDoc, before map[string]ledger.NodeDoc) {
	objects := []string{entryObject(e), nodeObject(now.NodeName)}
	was, known := victimOf(old, e.PodUID)
	switch {
	case !known && e.State == ledger.Evicting && !strings.HasPrefix(e.Plan, planSole):
		l.found.violate("S9", objects, "was claimed and marked for eviction by plan %s in one revision", e.Plan)
	case known && was.Plan != e.Plan:
		l.found.violate("S5", objects, "is claimed by plan %s although plan %s had claimed it", e.Plan, was.Plan)
	}
	if !known {
		for _, d := range sortedDocs(l.state.docs) {
			if _, twice := victimOf(d, e.PodUID); twice && d.NodeUID != now.NodeUID {
				l.found.violate("S5", objects, "is claimed on node %s too", d.NodeName)
			}
		}
	}
	if e.State != ledger.Evicting || known && was.State == ledger.Evicting {
		return
	}
	l.found.report.Evictions++
	l.marked[e.PodUID] = append(l.marked[e.PodUID], l.found.revision)
	if strings.HasPrefix(e.Plan, planSole) {
		return
	}
	if !l.state.hadPlace(e.Plan, before) {
		l.found.violate("S9", objects, "was marked for eviction by plan %s, which held no place", e.Plan)
	}
	if r := l.state.records[e.Plan]; strings.HasPrefix(e.Plan, planRecorded) && r.State != ledger.PlanReady {
		l.found.violate("S9", objects, "was marked for eviction by plan %s, whose record has state %s", e.Plan, r.State)
	}
}

// checkUnclaimed checks that a marked claim is removed only when its victim has left (S5).
func (l *planLaws) checkUnclaimed(e ledger.Entry, now ledger.NodeDoc) {
	pod, hw := l.evidence.pods[e.PodUID], now.HW[ledger.KindPod]
	if pod == nil && hw >= e.PodRV || pod != nil && pod.ended.maybe(hw) {
		return
	}
	l.found.violate("S5", []string{entryObject(e), nodeObject(now.NodeName)},
		"its claim by plan %s was removed at high-water mark %d while evictions could still arrive", e.Plan, hw)
}

// checkPreempted checks that every pod with a preemption condition had been claimed and marked (S9).
func (l *planLaws) checkPreempted() {
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		pod := l.evidence.pods[uid]
		told, scheduler := pod.preempted()
		if !told.known() || !l.schedulers[scheduler] || told.after == 0 || l.evidence.timeline.cutOff(told) {
			continue
		}
		f := Finding{Severity: Violation, Invariant: "S9", ResourceVersion: told.rv, Objects: []string{pod.object()}}
		switch marked := l.marked[uid]; {
		case len(marked) == 0 && !l.state.jumped && !l.generations.ofLost(told):
			f.Message = "was evicted for preemption, but no plan had marked it for eviction"
		case len(marked) > 0 && told.rv <= l.evidence.timeline.before(slices.Min(marked)):
			f.Revision = slices.Min(marked)
			f.Message = "was evicted for preemption before a plan had marked it for eviction"
		default:
			continue
		}
		l.found.report.add(f)
	}
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
