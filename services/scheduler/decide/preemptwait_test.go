package decide_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// rejectingPlugins returns the plugins that the last decision of the shard names.
func (st *scenario) rejectingPlugins() []string {
	st.t.Helper()
	d := st.s.decisions[len(st.s.decisions)-1]
	if d.Kind != events.DecisionUnplaceable {
		st.t.Fatalf("last decision %+v, want a rejection", d)
	}
	return d.Plugins
}

// A pod for which only a budget prevents evictions waits for the budget, and gets a held place when the budget has
// room.
func TestPodWaitsForABudget(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	a := arenaIn(st.world)
	st.running("v", "n0", ofApp("app0"), ready)
	a.addBudget("app0", 1)
	st.deliverAll()
	p := st.pod("p", important(10))
	st.runUntilQuiet()
	want := []string{"DefaultPreemption", "NodeResourcesFit"}
	if got := st.rejectingPlugins(); !slices.Equal(got, want) {
		t.Fatalf("rejected by %v, want %v", got, want)
	}
	a.budgets["app0"].Status.DesiredHealthy = 0
	a.count(a.budgets["app0"])
	st.deliverAll()
	st.offerAgain(p)
	st.runUntilQuiet()
	if _, hold, ok := st.hold(p); !ok || hold.State != ledger.Held {
		t.Errorf("hold %+v, want a place held now that the budget has room", hold)
	}
}

// No pod waits for preemption because of pods that are more important.
func TestPodDoesNotWaitForTheMoreImportant(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	st.running("v", "n0", important(500))
	st.deliverAll()
	st.pod("p", important(10))
	st.runUntilQuiet()
	if got := st.rejectingPlugins(); !slices.Equal(got, []string{"NodeResourcesFit"}) {
		t.Errorf("rejected by %v", got)
	}
}

// If another pod of the same priority has claimed its victim, a pod waits for the end of that plan.
func TestPodWaitsForAPlan(t *testing.T) {
	st, _, _ := held(t, 1)
	st.pod("q", important(10))
	st.runUntilQuiet()
	if got := st.rejectingPlugins(); !slices.Equal(got, []string{"DefaultPreemption", "NodeResourcesFit"}) {
		t.Errorf("rejected by %v", got)
	}
}

// A plan whose evictions are not begun is given up after one minute, not after three, and its victim is spared.
func TestPlanWhoseEvictionsAreNotBegun(t *testing.T) {
	st, p, v := held(t, 1)
	st.wait(50 * time.Second)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatal("given up at once")
	}
	st.wait(15 * time.Second)
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved || len(st.claims()) != 0 {
		t.Fatalf("claims %+v are left, and a place held: %t", st.claims(), reserved)
	}
	st.offerAgain(p)
	st.runUntilQuiet()
	if _, claimed := st.claims()[v]; claimed {
		t.Error("the victim is tried again at once")
	}
	if got := st.rejectingPlugins(); !slices.Contains(got, "DefaultPreemption") {
		t.Errorf("rejected by %v: the victim is only spared", got)
	}
	after := st.s.decisions[len(st.s.decisions)-1].RetryAfter
	if after <= 4*time.Minute || after > 5*time.Minute {
		t.Errorf("to be tried again after %s, want what is left of five minutes", after)
	}
	st.wait(after)
	st.offerAgain(p)
	st.runUntilQuiet()
	if _, claimed := st.claims()[v]; !claimed {
		t.Error("the victim is still left alone when it was said that it is not")
	}
}

// A plan whose victims leave anyway has nothing to begin.
func TestPlanWhoseVictimsLeaveIsWaitedFor(t *testing.T) {
	st, p, v := held(t, 1, func(o *corev1.Pod) { o.Spec.TerminationGracePeriodSeconds = new(int64) })
	now := metav1.Unix(1, 0)
	st.pods[v].DeletionTimestamp = &now
	st.publish(st.pods[v])
	st.runUntilQuiet()
	st.wait(90 * time.Second)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Error("given up though its victim is leaving")
	}
}

// The number of plans that binders have not begun is limited: a further pod waits, does not keep pods that fit from
// being placed, and is placed when it fits.
func TestPlansWaitForBinders(t *testing.T) {
	const most, extra = 64, 3
	st := newScenario(t, 1, most+extra, 1)
	for n := range most + extra {
		st.running(fmt.Sprintf("v%02d", n), fmt.Sprintf("n%d", n))
	}
	st.deliverAll()
	var pods []string
	held := func() (n int) {
		for _, uid := range pods {
			if _, e, ok := st.hold(uid); ok && e.State == ledger.Held {
				n++
			}
		}
		return n
	}
	for n := range most + 1 {
		pods = append(pods, st.pod(fmt.Sprintf("p%02d", n), important(10)))
		st.runUntilQuiet()
	}
	if n := held(); n != most {
		t.Fatalf("%d places are held, want %d while no eviction has begun", n, most)
	}
	last := pods[most]
	st.addNode("empty", 1)
	st.deliverAll()
	fits := st.pod("fits", important(1))
	st.runUntilQuiet()
	if node := st.reservations()[fits]; node != "empty" {
		t.Errorf("a pod that fits is placed on %q while others wait for plans", node)
	}
	if len(st.mark(pods[0])) != 1 {
		t.Fatal("nothing to mark")
	}
	st.runUntilQuiet()
	if _, e, _ := st.hold(last); e.State != ledger.Held || held() != most+1 {
		t.Errorf("%d places are held, want one more now that one has begun", held())
	}
	waits := st.pod("waits", important(10))
	st.runUntilQuiet()
	st.addNode("free", 1)
	st.deliverAll()
	st.wait(time.Second)
	st.runUntilQuiet()
	if node := st.reservations()[waits]; node != "free" {
		t.Errorf("who waits for a plan is on %q, want the room that has come to be", node)
	}
}

// Plans whose evictions are not begun do not count against their pod, however often that happens.
func TestPlansThatAreNotBegunAreNoFailures(t *testing.T) {
	const victims = 5
	st := newScenario(t, 1, victims, 1)
	for n := range victims {
		st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n))
	}
	st.deliverAll()
	p := st.pod("p", important(10))
	for n := range victims {
		st.runUntilQuiet()
		if _, hold, _ := st.hold(p); hold.State != ledger.Held {
			t.Fatalf("no place is held after %d plans that were not begun", n)
		}
		st.wait(61 * time.Second)
		st.runUntilQuiet()
		if _, _, reserved := st.hold(p); reserved {
			t.Fatal("a plan that is not begun is kept")
		}
		st.offerAgain(p)
	}
}
