package decide_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// rejectors are the rules that the last decision of the shard names.
func (st *story) rejectors() []string {
	st.t.Helper()
	d := st.s.decisions[len(st.s.decisions)-1]
	if d.Kind != events.DecisionUnplaceable {
		st.t.Fatalf("last decision %+v, want a rejection", d)
	}
	return d.Plugins
}

// Whoever only a budget keeps from having others go says that he waits for it, and gets a
// place held when it has room.
func TestPodWaitsForABudget(t *testing.T) {
	st := newStory(t, 1, 1, 1)
	a := arenaIn(st.world)
	st.running("v", "n0", ofApp("app0"), ready)
	a.addBudget("app0", 1)
	st.tell()
	p := st.pod("p", important(10))
	st.told()
	want := []string{"DefaultPreemption", "NodeResourcesFit"}
	if got := st.rejectors(); !slices.Equal(got, want) {
		t.Fatalf("rejected by %v, want %v", got, want)
	}
	a.budgets["app0"].Status.DesiredHealthy = 0
	a.count(a.budgets["app0"])
	st.tell()
	st.offerAgain(p)
	st.told()
	if _, hold, ok := st.hold(p); !ok || hold.State != ledger.Held {
		t.Errorf("hold %+v, want a place held now that the budget has room", hold)
	}
}

// Nobody waits for preemption on account of pods that are more important.
func TestPodDoesNotWaitForTheMoreImportant(t *testing.T) {
	st := newStory(t, 1, 1, 1)
	st.running("v", "n0", important(500))
	st.tell()
	st.pod("p", important(10))
	st.told()
	if got := st.rejectors(); !slices.Equal(got, []string{"NodeResourcesFit"}) {
		t.Errorf("rejected by %v", got)
	}
}

// A pod of the same priority, whose victim another one has claimed, waits for the end of that
// plan.
func TestPodWaitsForAPlan(t *testing.T) {
	st, _, _ := held(t, 1)
	st.pod("q", important(10))
	st.told()
	if got := st.rejectors(); !slices.Equal(got, []string{"DefaultPreemption", "NodeResourcesFit"}) {
		t.Errorf("rejected by %v", got)
	}
}

// A plan whose evictions nobody begins is given up after a minute, not after three, and its
// victim is left alone.
func TestPlanWhoseEvictionsAreNotBegun(t *testing.T) {
	st, p, v := held(t, 1)
	st.wait(50 * time.Second)
	st.told()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatal("given up at once")
	}
	st.wait(15 * time.Second)
	st.told()
	if _, _, reserved := st.hold(p); reserved || len(st.claims()) != 0 {
		t.Fatalf("claims %+v are left, and a place held: %t", st.claims(), reserved)
	}
	st.offerAgain(p)
	st.told()
	if _, claimed := st.claims()[v]; claimed {
		t.Error("the victim is tried again at once")
	}
	if got := st.rejectors(); !slices.Contains(got, "DefaultPreemption") {
		t.Errorf("rejected by %v: the victim is only spared", got)
	}
}

// A plan whose victims leave anyway has nothing to begin.
func TestPlanWhoseVictimsLeaveIsWaitedFor(t *testing.T) {
	st, p, v := held(t, 1, func(o *corev1.Pod) { o.Spec.TerminationGracePeriodSeconds = new(int64) })
	now := metav1.Unix(1, 0)
	st.pods[v].DeletionTimestamp = &now
	st.publish(st.pods[v])
	st.told()
	st.wait(90 * time.Second)
	st.told()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Error("given up though its victim is leaving")
	}
}
