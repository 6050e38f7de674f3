package audit

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// planLaws checks the victims of plans (S5, S9), and the places that are kept for moves. A plan is a place for one pod
// with the victims that must leave for it. A shard claims them together with the place; a binder marks each claim
// (Evicting) in a later revision and then evicts; a marked claim stays until its victim has left.
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

// adoptMarks records the marks in a list of the ledger as made before the history: their evictions may be older than
// any mark of the recording.
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
// documents; all others are unchanged. It also collects the scheduler names of Berth's profiles from the reservations,
// which no other part of a history contains.
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

// checkVictim checks that a pod is claimed by one plan (S5), first without the mark and then with it, and that it is
// marked only while its plan has its place (S9). Two revisions, because a shard claims and a binder marks: an eviction
// whose mark is in the ledger can be taken over by another binder. A plan that is one eviction without a place
// (planSole) has neither, and a plan with a record must be complete (PlanReady) before its first eviction.
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

// checkUnclaimed checks that a marked claim is removed only when its victim has left (S5): an eviction that is still
// in progress would otherwise hit a pod that no plan accounts for. The document's high-water mark must cover the
// victim's end.
func (l *planLaws) checkUnclaimed(e ledger.Entry, now ledger.NodeDoc) {
	pod, hw := l.evidence.pods[e.PodUID], now.HW[ledger.KindPod]
	if pod == nil && hw >= e.PodRV || pod != nil && pod.ended.possibleBy(hw) {
		return
	}
	l.found.violate("S5", []string{entryObject(e), nodeObject(now.NodeName)},
		"its claim by plan %s was removed at high-water mark %d while evictions could still arrive", e.Plan, hw)
}

// checkPreempted checks that every pod with a preemption condition had been claimed and marked (S9). Left out are pods
// that Berth's profiles did not preempt, pods whose condition is older than the recording (after is 0) or newer than
// its last mark, and, where no mark is known, histories with a gap or a lost ledger.
func (l *planLaws) checkPreempted() {
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		pod := l.evidence.pods[uid]
		evicted, scheduler := pod.preempted()
		if !evicted.happened() || !l.schedulers[scheduler] || evicted.after == 0 || l.evidence.timeline.cutOff(evicted) {
			continue
		}
		f := Finding{Severity: Violation, Invariant: "S9", ResourceVersion: evicted.rv, Objects: []string{pod.object()}}
		switch marked := l.marked[uid]; {
		case len(marked) == 0 && !l.state.jumped && !l.generations.fromLostLedger(evicted):
			f.Message = "was evicted for preemption, but no plan had marked it for eviction"
		case len(marked) > 0 && evicted.rv <= l.evidence.timeline.lowerBound(slices.Min(marked)):
			f.Revision = slices.Min(marked)
			f.Message = "was evicted for preemption before a plan had marked it for eviction"
		default:
			continue
		}
		l.found.report.add(f)
	}
}

// preempted returns when a scheduler set the pod's preemption condition, and that scheduler's name, which begins the
// condition's message as in kube-scheduler; the zero moment if none did.
func (p *podHistory) preempted() (at moment, scheduler string) {
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
