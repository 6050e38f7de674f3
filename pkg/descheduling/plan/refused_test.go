package plan

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// cycleEvery is the usual time between two cycles.
const cycleEvery = 5 * time.Minute

// asksOf runs cycles for a time, whose evictions are all refused, and returns the times at which some were
// requested. objects returns the cluster of each cycle.
func asksOf(t *testing.T, length time.Duration, objects func(cycle int) []state.APIObject) (at []time.Duration) {
	t.Helper()
	p := policyOf(t, "", "", leaveTaints)
	h := NewHistory()
	for cycle := 0; time.Duration(cycle)*cycleEvery < length; cycle++ {
		in := input(t, p, objects(cycle)...)
		in.History, in.Now = h, now.Add(time.Duration(cycle)*cycleEvery)
		made := Make(in)
		if len(made.Moves) > 0 {
			at = append(at, in.Now.Sub(now))
		}
		for _, m := range made.Moves {
			attempt := h.Next(m.Pod.UID)
			for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvictRefused} {
				h.Observe(events.Decision{
					Kind: k, Attempt: attempt, Pod: events.PodRef{UID: m.Pod.UID, Namespace: m.Pod.Namespace}, Owner: m.Owner,
					FactSequence: uint64(cycle),
				}, in.Now)
			}
		}
	}
	return at
}

// TestRefusedEvictionsBecomeRare checks that refused evictions are requested half as often each time, although the
// budget, which is deleted and created again before every cycle, seems to allow them.
func TestRefusedEvictionsBecomeRare(t *testing.T) {
	budget := func(cycle int) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: types.UID(fmt.Sprint("uid-pdb-", cycle))},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
		}
	}
	for pods, want := range map[int]string{
		1: "[0s 5m0s 15m0s 35m0s 1h15m0s 2h15m0s 3h15m0s]",
		// In the third cycle another pod is asked for, and from then on the owner rests.
		30: "[0s 5m0s 10m0s 20m0s 40m0s 1h20m0s 2h20m0s 3h20m0s]",
	} {
		got := asksOf(t, 4*time.Hour, func(cycle int) []state.APIObject {
			return append(many(pods, "a", "x"), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b", sized("100")),
				budget(cycle))
		})
		if fmt.Sprint(got) != want {
			t.Errorf("of %d pods some were asked for after %s, want %s", pods, got, want)
		}
	}
}

// TestAnotherEvictionEndsTheRestOfARefusedOne checks that an owner does not rest because of refusals in a cycle in
// which another pod of it was evicted, and no longer rests once one has been.
func TestAnotherEvictionEndsTheRestOfARefusedOne(t *testing.T) {
	h := NewHistory()
	addDecision := func(pod string, outcome events.DecisionKind, cycle uint64, ago time.Duration) {
		for _, k := range []events.DecisionKind{events.DecisionEvict, outcome} {
			h.Observe(events.Decision{
				Kind: k, Attempt: 1, Pod: podRef(pod), Owner: "uid-x", FactSequence: cycle,
			}, now.Add(-ago))
		}
	}
	refusing := func() bool { return h.owners[ownerX].refusedLately(now) }
	addDecision("1", events.DecisionEvictRefused, 1, 10*time.Minute)
	addDecision("2", events.DecisionEvictRefused, 1, 10*time.Minute)
	if refusing() {
		t.Error("the owner rests after one cycle in which evictions were refused")
	}
	addDecision("3", events.DecisionEvictRefused, 2, time.Minute)
	if !refusing() {
		t.Error("the owner does not rest after two cycles in which evictions were refused")
	}
	if c := h.Clone(); !c.owners[ownerX].refusedLately(now) {
		t.Error("a copy does not know of the refusals")
	}
	addDecision("4", events.DecisionEvicted, 3, 0)
	addDecision("5", events.DecisionEvictRefused, 3, 0)
	if refusing() {
		t.Error("the owner rests although a pod of it was evicted in the same cycle")
	}
}

// TestRefusalsAreReadAgain checks that after a restart a pod rests as it did before, that refusals long after one
// another do not add up, and that a rest counts from the last of them.
func TestRefusalsAreReadAgain(t *testing.T) {
	for _, tt := range []struct {
		name                string
		refusals            int
		every, last, wanted time.Duration
	}{
		{"one a day, two days ago", 6, 24 * time.Hour, 48 * time.Hour, 0},
		{"one a day, now", 6, 24 * time.Hour, 0, Cooldown},
		{"in a row, now", 6, time.Hour, 0, maxBackoff},
		{"in a row, half of a rest ago", 6, time.Hour, maxBackoff / 2, maxBackoff / 2},
		{"in a row, a rest ago", 6, time.Hour, maxBackoff, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			for i := range tt.refusals {
				age := tt.last + time.Duration(tt.refusals-1-i)*tt.every
				for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvictRefused} {
					h.Recall(events.Decision{
						Kind: k, Attempt: int32(i + 1), Pod: podRef("uid-p"), Owner: "uid-x", FactSequence: uint64(i),
					}, now, age)
				}
			}
			if before := tt.wanted - time.Second; before > 0 && h.refuse("uid-p", now.Add(before)) != CoolingDown {
				t.Errorf("it rests no more %s after the restart", before)
			}
			if r := h.refuse("uid-p", now.Add(tt.wanted)); r != "" {
				t.Errorf("%s after the restart: %s", tt.wanted, r)
			}
		})
	}
}

// TestUnkeptPlacesBecomeRare checks that a pod for whose replacement the ledger has no room is not planned to move
// in every cycle.
func TestUnkeptPlacesBecomeRare(t *testing.T) {
	h := NewHistory()
	var at []time.Duration
	for after := time.Duration(0); after < 4*time.Hour; after += cycleEvery {
		in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
			pod("x-a-0", "a", "x"))
		in.History, in.Now = h.Clone(), now.Add(after)
		for _, m := range Make(in).Moves {
			at = append(at, after)
			h.RecordUnkept(m.Pod.UID, in.Now)
		}
	}
	if got, want := fmt.Sprint(at), "[0s 5m0s 15m0s 35m0s 1h15m0s 2h15m0s 3h15m0s]"; got != want {
		t.Errorf("it was to move after %s, want %s", got, want)
	}
	h.Forget(func(string) bool { return false }, now)
	if len(h.unkept) > 0 {
		t.Error("a pod that is gone is remembered")
	}
}

// TestSurplusStays checks that a pod whose owner would not create another one is not moved.
func TestSurplusStays(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "uid-x"}
	deleted := meta
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	const (
		both  = "x-a-0 from a to b\nx-a-1 from a to b\n"
		stays = "kept 2: its owner has more pods than it wants and would make no other\n"
	)
	set := func(meta metav1.ObjectMeta, replicas int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	}
	for _, tt := range []struct {
		name  string
		owner state.APIObject
		want  string
	}{
		{"as many as it wants", set(meta, 2), both},
		{"scaled down", set(meta, 1), stays},
		{"a StatefulSet that is scaled down",
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))}}, stays},
		{"deleted", set(deleted, 2), stays},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaving := pod("x-old", "b", "x", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
			objects := append(many(2, "a", "x"), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"), leaving, tt.owner)
			expect(t, input(t, policyOf(t, "berth: {maxPerOwner: 100%},", "", leaveTaints), objects...), tt.want)
		})
	}
}
