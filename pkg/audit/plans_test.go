package audit

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

const (
	planID = "0000000000000007"
	pdbUID = "pdb-uid"
)

// crowded returns a scenario of a node on which v and w run, v under a budget that allows allowed disruptions, while p
// is pending.
func crowded(t *testing.T, allowed int32) *scenario {
	s := begin(t).node("n", "2", nil).pod("v", "1").pod("w", "1").pod("p", "2")
	s.foreign("v", "n")
	s.foreign("w", "n")
	s.pdb(allowed)
	return s
}

func (s *scenario) pdb(allowed int32) {
	b := &recording.Budget{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pdb", UID: pdbUID}}
	b.Status.DisruptionsAllowed = allowed
	s.happens(recording.Object{Kind: recording.KindBudget, UID: pdbUID, Budget: b})
}

func claimOn(pod, plan string) ledger.Entry {
	e := ledger.Entry{PodUID: pod + "-uid", Namespace: "d", Name: pod, Role: ledger.RoleVictim, Plan: plan, PodRV: 100}
	if pod == "v" {
		e.Budgets = []string{pdbUID}
	}
	return e
}

// nominate runs T2: p is held on n, and the victims are claimed; v from its budget too.
func (s *scenario) nominate(victims ...string) { s.nominateAt(0, victims...) }

// nominateAt is nominate with the budget's high-water mark.
func (s *scenario) nominateAt(hw uint64, victims ...string) {
	hold := s.entry("p")
	hold.State, hold.Plan, hold.SchedulerName, hold.Priority = ledger.Held, planID, "berth", 10
	s.edit("n", func(d *ledger.NodeDoc) {
		d.Entries = append(d.Entries, hold)
		for _, v := range victims {
			d.Entries = append(d.Entries, claimOn(v, planID))
		}
	})
	if slices.Contains(victims, "v") {
		s.budget(hw, "v")
	}
}

// budget writes the budget's document in the preceding transaction.
func (s *scenario) budget(hw uint64, claimed ...string) {
	doc := ledger.BudgetDoc{UID: pdbUID, Namespace: "d", Name: "pdb", HW: map[string]uint64{ledger.KindBudget: hw}}
	for _, v := range claimed {
		doc.Claims = append(doc.Claims, ledger.BudgetClaim{
			PodUID: v + "-uid", PodRV: 100, Plan: planID, Regardless: s.regardless,
		})
	}
	last := s.records[len(s.records)-1].Ledger
	last.Events = append(last.Events, recording.LedgerEvent{
		Key: ledger.KeyBudget(pdbUID), Value: s.must(codec.EncodeBudget(doc)), Create: 1, Mod: s.revision,
	})
}

// marks marks victims as being evicted.
func (s *scenario) marks(victims ...string) {
	for _, v := range victims {
		s.state("n", v, ledger.Evicting)
	}
}

// preempt marks a pod as preempted, and deletes it.
func (s *scenario) preempt(pod string) {
	s.update(pod, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: "berth: preempting to accommodate a higher priority pod",
		}}
	})
	s.update(pod, func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now })
}

// makeRoom deletes the victims and promotes the hold.
func (s *scenario) makeRoom(victims ...string) {
	var gone uint64
	for _, v := range victims {
		gone = s.remove(v)
	}
	s.edit("n", func(d *ledger.NodeDoc) {
		d.HW[ledger.KindPod] = gone
		d.Entries = slices.DeleteFunc(d.Entries, func(e ledger.Entry) bool { return e.Role == ledger.RoleVictim })
		d.Entries[0].State, d.Entries[0].Plan = ledger.Committed, ""
	})
	if slices.Contains(victims, "v") {
		s.budget(gone)
	}
}

func TestPreemptionAsItShouldBe(t *testing.T) {
	s := crowded(t, 1)
	s.nominate("v", "w")
	s.mark()
	s.marks("v", "w")
	s.preempt("v")
	s.preempt("w")
	s.mark()
	s.makeRoom("v", "w")
	s.mark()
	s.bind("p", "n")
	r := s.finds()
	if r.Nominated != 1 || r.Promoted != 1 || r.Evictions != 2 || r.Abandoned != 0 {
		t.Errorf("counts %+v", r.Counts)
	}
}

func TestVictimLaws(t *testing.T) {
	t.Run("S9: marked for a plan without a place", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("v")
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries = d.Entries[1:] })
		s.marks("v")
		s.finds("violation S9 pod/d/v node/n")
	})
	t.Run("S9: claimed and marked at once", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate()
		s.edit("n", func(d *ledger.NodeDoc) {
			e := claimOn("w", planID)
			e.State = ledger.Evicting
			d.Entries = append(d.Entries, e)
		})
		s.finds("violation S9 pod/d/w node/n")
	})
	t.Run("an eviction for nobody is claimed and marked at once", func(t *testing.T) {
		s := crowded(t, 1)
		s.edit("n", func(d *ledger.NodeDoc) {
			e := claimOn("w", planSole+planID)
			e.State = ledger.Evicting
			d.Entries = append(d.Entries, e)
		})
		s.finds()
	})
	t.Run("S9: a large plan that is still forming", func(t *testing.T) {
		s := crowded(t, 1)
		plan := planRecorded + planID
		record := ledger.PlanRecord{ID: plan, State: ledger.PlanForming, NodeUID: "n-uid", PodUID: "p-uid", Victims: 2}
		s.key(recording.LedgerEvent{Key: ledger.KeyPlan(plan), Value: s.must(codec.EncodePlan(record))})
		hold := s.entry("p")
		hold.State, hold.Plan = ledger.Held, plan
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries = append(d.Entries, hold, claimOn("w", plan)) })
		s.marks("w")
		s.finds("violation S9 pod/d/w node/n")
	})
}

func TestPreemptedPods(t *testing.T) {
	t.Run("S9: told to make room before the mark, or without one", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("v", "w")
		s.mark()
		s.preempt("v")
		s.preempt("w")
		s.mark()
		s.marks("v")
		s.finds("violation S9 pod/d/v", "violation S9 pod/d/w")
	})
	t.Run("another scheduler preempts as it likes", func(t *testing.T) {
		s := crowded(t, 1)
		s.preempt("v")
		s.finds()
	})
	t.Run("S5: two plans claim one pod", func(t *testing.T) {
		s := crowded(t, 1).node("m", "1", nil)
		s.nominate("w")
		s.edit("m", func(d *ledger.NodeDoc) { d.Entries = append(d.Entries, claimOn("w", "8")) })
		s.finds("violation S5 pod/d/w node/m")
	})
	t.Run("S5: a claim leaves while evictions may arrive", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("w")
		s.marks("w")
		s.drop("n", "w", s.rv)
		s.finds("violation S5 pod/d/w node/n")
	})
	t.Run("abandoned: a hold goes for which somebody was evicted", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("w")
		s.marks("w")
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries = d.Entries[1:] })
		if r := s.finds(); r.Abandoned != 1 {
			t.Errorf("%d abandoned, want 1", r.Abandoned)
		}
	})
}

func TestBudgetLaws(t *testing.T) {
	budgetKey := "ledger/" + ledger.KeyBudget(pdbUID)
	t.Run("S6: more is claimed than the budget allows", func(t *testing.T) {
		s := crowded(t, 0)
		s.nominate("v")
		s.finds("violation S6 poddisruptionbudget/d/pdb " + budgetKey)
	})
	t.Run("more is claimed than the budget allows, regardless of that", func(t *testing.T) {
		s := crowded(t, 0)
		s.regardless = true
		s.nominate("v")
		s.finds()
	})
	t.Run("S6: it allowed that before the high-water", func(t *testing.T) {
		s := crowded(t, 1)
		s.pdb(0)
		s.edit("n", func(*ledger.NodeDoc) {})
		s.budget(s.rv)
		s.nominateAt(s.rv, "v")
		s.finds("violation S6 poddisruptionbudget/d/pdb " + budgetKey)
	})
	t.Run("a budget that shrinks later is nobody's mistake", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("v")
		s.mark()
		s.pdb(0)
		s.finds()
	})
	t.Run("S6: a claim without a victim, and twice", func(t *testing.T) {
		s := crowded(t, 2)
		s.edit("n", func(*ledger.NodeDoc) {})
		s.budget(0, "v", "v")
		s.finds("violation S6 "+budgetKey+" pod/d/v", "violation S6 "+budgetKey, "violation S6 "+budgetKey+" pod/d/v")
	})
	t.Run("S6: dropped while evictions may arrive", func(t *testing.T) {
		s := crowded(t, 1)
		s.nominate("v")
		s.marks("v")
		s.budget(s.rv)
		s.finds("violation S6 " + budgetKey + " pod/d/v")
	})
	t.Run("S12: a high-water sinks, a document goes", func(t *testing.T) {
		s := crowded(t, 1)
		s.edit("n", func(*ledger.NodeDoc) {})
		s.budget(50)
		s.edit("n", func(*ledger.NodeDoc) {})
		s.budget(40)
		s.key(recording.LedgerEvent{Key: ledger.KeyBudget(pdbUID), Deleted: true})
		s.finds("violation S12 "+budgetKey, "violation S12 "+budgetKey)
	})
}
