package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

func TestOffersFollowPriorityThenArrival(t *testing.T) {
	h := newHarness(t)
	for _, p := range []struct {
		name     string
		priority int32
	}{{"a", 0}, {"b", 10}, {"c", 0}, {"d", 10}, {"e", -5}, {"f", 0}} {
		h.add(p.name, p.priority)
		h.now = h.now.Add(time.Millisecond)
	}
	h.lead()
	h.ask("s1", 5)
	if diff := cmp.Diff([]string{"b", "d", "a", "c", "f"}, offered(h)); diff != "" {
		t.Fatal(diff)
	}
	h.want("e", PoolActive)
	// The window stays open: work that comes later is offered as soon as there is room.
	h.answer(h.offerOf("b"), events.DecisionFailed, nil)
	if diff := cmp.Diff([]string{"e"}, offered(h)); diff != "" {
		t.Fatal(diff)
	}
}

func TestOffersGoOnlyToTheHolderOfThePartition(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.step(Lead{Term: 3})
	h.ask("s1", 10)
	h.want("a", PoolActive)
	h.ownAll("s2")
	h.want("a", PoolActive)
	h.ask("s2", 10)
	h.want("a", PoolOffered)
	first := h.offerOf("a")
	if first.Attempt != 1 || first.FactSequence != h.sequence || first.LeaseMillis != 10_000 {
		t.Fatalf("offer %+v", first)
	}
	// The partition leaves the shard: its transactions fail from now on.
	h.ownAll("s1")
	h.want("a", PoolOffered)
	if h.shards[h.offerOf("a").Token] != "s1" || h.counts.Expired != 1 {
		t.Fatalf("offered to %s, %d expired", h.shards[h.offerOf("a").Token], h.counts.Expired)
	}
}

func TestLeasesAreRenewedReturnedAndExpire(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.add("b", 0)
	h.ask("s1", 2)
	a, b := h.offerOf("a"), h.offerOf("b")
	h.now = h.now.Add(lease - time.Second)
	h.step(WorkAsked{Request: events.WorkRequest{Shard: "s1", Window: 0, Renew: []string{a.Token}}})
	// Another shard can neither renew nor return what is not its own.
	foreign := events.WorkRequest{Shard: "s2", Renew: []string{b.Token}, Return: []string{b.Token}}
	h.step(WorkAsked{Request: foreign})
	h.sleep(time.Second)
	h.want("a", PoolOffered)
	h.want("b", PoolActive)
	h.step(WorkAsked{Request: events.WorkRequest{Shard: "s1", Window: 1, Return: []string{a.Token}}})
	// A returned offer keeps its place and does not count as an attempt.
	if len(h.last) != 1 || h.last[0].Pod != a.Pod || h.last[0].Attempt != 1 {
		t.Fatalf("offers %+v", h.last)
	}
	h.answer(h.last[0], events.DecisionFailed, nil)
	if len(h.last) != 1 || h.last[0].Pod != b.Pod || h.last[0].Attempt != 2 {
		t.Fatalf("offers %+v", h.last)
	}
	if h.counts.Expired != 1 || h.counts.Returned != 1 {
		t.Fatalf("counts %+v", h.counts)
	}
	// A silent shard gets nothing more, and its leases run out.
	h.sleep(lease)
	h.want("b", PoolActive)
}

func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	for count, want := range []time.Duration{0, 1, 2, 4, 8, 10, 10, 10} {
		if got := backoff(time.Second, 10*time.Second, count); got != want*time.Second {
			t.Errorf("backoff after %d failures is %s, want %s", count, got, want*time.Second)
		}
	}
	if got := backoff(time.Second, 10*time.Second, 1000); got != 10*time.Second {
		t.Errorf("backoff after 1000 failures is %s", got)
	}
	if got := backoff(time.Second, 0, 3); got != 0 {
		t.Errorf("a maximum of 0 gives %s, want none", got)
	}
}

func TestFailedPodsWaitTheirBackoffAndTheirCondition(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	for _, seconds := range []time.Duration{1, 2, 4, 8, 10} {
		want := seconds * time.Second
		o := h.offerOf("a")
		h.answer(o, events.DecisionFailed, nil)
		h.want("a", PoolBackoff)
		h.tell(events.Decision{Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: h.version})
		h.now = h.now.Add(want - time.Millisecond)
		h.ask("s1", 1)
		h.want("a", PoolBackoff)
		h.sleep(time.Millisecond)
		h.want("a", PoolOffered)
	}
	// The condition is not there yet: the pod waits for it beyond its backoff, not for ever.
	h.add("b", 1)
	h.ask("s1", 2)
	o := h.offerOf("b")
	h.answer(o, events.DecisionFailed, nil)
	h.tell(events.Decision{Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: h.version + 1})
	h.sleep(2 * time.Second)
	h.want("b", PoolBackoff)
	h.put("b", func(p *corev1.Pod) { p.Status.Message = "no node fits" })
	h.want("b", PoolOffered)
	h.answer(h.offerOf("b"), events.DecisionFailed, nil)
	h.sleep(condition - time.Millisecond)
	h.want("b", PoolBackoff)
	h.ask("s1", 2)
	h.sleep(time.Millisecond)
	h.want("b", PoolOffered)
}

func TestParkedPodsWakeByCause(t *testing.T) {
	park := func(t *testing.T, names ...string) *harness {
		h := newHarness(t)
		h.node("n", func(*corev1.Node) {})
		h.add("other", 0)
		h.bind("other")
		h.lead()
		h.add("a", 0)
		h.ask("s1", 1)
		h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins(names...))
		h.want("a", PoolParked)
		h.sleep(20 * time.Second)
		h.want("a", PoolParked)
		return h
	}
	label := func(n *corev1.Node) { n.Labels = map[string]string{"k": "v"} }
	taint := func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable }
	heartbeat := func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }
	for _, test := range []struct {
		name   string
		plugin string
		event  func(h *harness)
		wakes  bool
	}{
		{"a node helps anyone", "NodeResourcesFit", func(h *harness) { h.node("m", label) }, true},
		{"labels help affinity", "NodeAffinity", func(h *harness) { h.node("n", label) }, true},
		{"labels do not help fit", "NodeResourcesFit", func(h *harness) { h.node("n", label) }, false},
		{"uncordon helps", "NodeUnschedulable", func(h *harness) { h.node("n", taint) }, true},
		{"a heartbeat helps nobody", "NodeResourcesFit", func(h *harness) { h.node("n", heartbeat) }, false},
		{"an unknown plugin wakes on anything", "Foreign", func(h *harness) { h.node("n", label) }, true},
		{"a deleted pod leaves room", "NodeResourcesFit", func(h *harness) { h.remove("other") }, true},
		{"a finished pod leaves room", "NodeResourcesFit", func(h *harness) {
			h.put("other", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		}, true},
		{"a deleted pod does not untaint", "TaintToleration", func(h *harness) { h.remove("other") }, false},
		{"its own toleration", "TaintToleration", func(h *harness) {
			h.put("a", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
		}, true},
		{"its own condition is no news", "TaintToleration", func(h *harness) {
			h.put("a", func(p *corev1.Pod) { p.Status.Message = "no" })
		}, false},
		{"a bound pod may attract", "InterPodAffinity", func(h *harness) { h.add("c", 0); h.bind("c") }, true},
		{"a freed reservation leaves room", "NodeResourcesFit", func(h *harness) {
			h.add("c", 0)
			h.hold(Hold{PodUID: "c", Live: true})
			h.hold(Hold{PodUID: "c", HW: h.progress})
		}, true},
		{"a handed-over reservation leaves none", "NodeResourcesFit", func(h *harness) {
			h.add("c", 0)
			h.hold(Hold{PodUID: "c", Live: true})
			h.bind("c")
			h.hold(Hold{PodUID: "c", HW: h.progress, Bound: true})
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := park(t, test.plugin)
			test.event(h)
			h.ask("s1", 2)
			want := PoolParked
			if test.wakes {
				want = PoolOffered
			}
			h.want("a", want)
		})
	}
}

func TestFlushIsTheNetUnderTheTable(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeName"))
	h.sleep(flushAfter - time.Millisecond)
	h.want("a", PoolParked)
	h.sleep(time.Millisecond)
	h.want("a", PoolActive)
	if h.counts.Flushed != 1 {
		t.Fatalf("flushed %d", h.counts.Flushed)
	}
}

func TestAnEventDuringTheAttemptIsNotLost(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	o := h.offerOf("a")
	seen := h.sequence
	h.node("n", func(*corev1.Node) {})
	h.answer(o, events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactSequence = []string{"NodeResourcesFit"}, seen
	})
	h.want("a", PoolBackoff)
	// A shard that was ahead of the queue has seen the event: it is no news.
	h.add("b", 5)
	h.ask("s1", 2)
	h.answer(h.offerOf("b"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactSequence = []string{"NodeResourcesFit"}, h.sequence+1
	})
	h.node("m", func(*corev1.Node) {})
	h.want("b", PoolParked)
	h.node("o", func(*corev1.Node) {})
	h.want("b", PoolBackoff)
	// Room that a reservation left while the attempt ran has no fact: its revision tells.
	h.add("c", 9)
	h.hold(Hold{PodUID: "foreign", Live: true})
	h.ask("s1", 3)
	before := h.revision
	h.hold(Hold{PodUID: "foreign"})
	h.answer(h.offerOf("c"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.LedgerRevision = []string{"NodePorts"}, before
	})
	h.want("c", PoolBackoff)
}

func TestTheLedgerOutranksMessages(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	o := h.offerOf("a")
	placed := h.answer(o, events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 2 })
	h.want("a", PoolHeld)
	h.hold()
	h.want("a", PoolHeld) // the watch has not reached the reservation's revision
	h.hold(Hold{PodUID: "a", Live: true})
	// A verdict that is late, or repeated, changes nothing now.
	h.answer(o, events.DecisionUnplaceable, plugins("NodeName"))
	h.tell(placed)
	h.want("a", PoolHeld)
	// The entry vanishes at a high-water the facts have not reached: no conclusion yet.
	h.hold(Hold{PodUID: "a", HW: h.progress + 2})
	h.want("a", PoolHeld)
	h.add("x", 0)
	h.want("a", PoolHeld)
	h.bind("a")
	h.want("a", PoolNone)
	if len(h.bound) != 1 || h.bound[0].Attempts != 1 || h.bound[0].FirstOffer.IsZero() {
		t.Fatalf("bound %+v", h.bound)
	}
}

func TestAReleasedReservationMakesThePodActiveAgain(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.hold(Hold{PodUID: "a", Live: true})
	h.hold(Hold{PodUID: "a", HW: h.progress + 1})
	h.want("a", PoolHeld)
	h.put("a", func(p *corev1.Pod) { p.Annotations = map[string]string{"fence": "1"} })
	h.want("a", PoolActive)
	// A reservation that the message promised and the watch never showed.
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 1 })
	h.want("a", PoolHeld)
	h.hold()
	h.want("a", PoolOffered)
	// A full list without it.
	h.hold(Hold{PodUID: "a", Live: true})
	h.revision++
	h.step(LedgerMoved{Reset: true, Revision: h.revision})
	h.want("a", PoolOffered)
}

func TestGatedAndForeignPods(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.put("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	h.put("b", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
	h.ask("s1", 5)
	h.want("a", PoolGated)
	h.want("b", PoolNone)
	h.put("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	h.want("a", PoolOffered)
	h.remove("a")
	h.want("a", PoolNone)
}

func TestTakeoverTriesEveryFreePod(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.add("held", 0)
	h.hold(Hold{PodUID: "held", Live: true})
	h.ownAll("s1")
	h.ask("s1", 10) // a standby gives nothing out
	h.answer(events.Offer{Pod: events.PodRef{UID: "a"}, Token: "0000000000000001"}, events.DecisionUnplaceable, nil)
	h.want("a", PoolActive)
	if h.counts.Offered != 0 {
		t.Fatalf("a standby offered %d", h.counts.Offered)
	}
	h.step(Lead{Term: 2})
	h.ask("s1", 10)
	h.want("a", PoolOffered)
	h.want("held", PoolHeld)
	h.step(StepDown{})
	h.want("a", PoolActive)
	h.bind("a")
	if len(h.bound) != 0 {
		t.Fatalf("a standby reported %+v", h.bound)
	}
}

func TestRebuiltFacts(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.add("b", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeName"))
	h.want("a", PoolParked)
	h.sleep(10 * time.Second)
	delete(h.pods, "b")
	h.pods["c"] = state.NewPod(newPod("c"))
	h.sequence += 10
	h.step(FactsReset{Pods: []*state.Pod{h.pods["a"], h.pods["c"]}, Position: h.at()})
	h.want("a", PoolActive) // whatever it waited for may have happened
	h.want("b", PoolNone)
	h.want("c", PoolActive)
}

func TestDescribe(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("b", 0)
	h.add("a", 5)
	h.ask("s1", 1)
	want := strings.Join([]string{
		"queue queue-a leading=true term=1 facts=2 ledger=1",
		"gated 0",
		"active 1",
		"  ns/b priority=0 attempts=0 waits for room in the window of s1 (partition " +
			fmt.Sprint(ledger.PartitionOf("b")) + ")",
		"backoff 0",
		"parked 0",
		"offered 1",
		"  ns/a priority=5 attempts=1 offered to s1 (token " + h.offerOf("a").Token + ")",
		"held 0",
		"",
	}, "\n")
	if diff := cmp.Diff(want, h.core.Describe()); diff != "" {
		t.Fatal(diff)
	}
}

func TestCausesAreCounted(t *testing.T) {
	if causeEnd != 1<<causeCount {
		t.Fatalf("causeCount is %d, the list of causes is another length", causeCount)
	}
}

func TestTokensDoNotRepeat(t *testing.T) {
	c := New(Config{TokenSeed: 42})
	seen := map[ledger.Token]bool{}
	for range 10_000 {
		token := c.newToken()
		if seen[token] || token == 0 {
			t.Fatalf("token %s", token)
		}
		seen[token] = true
	}
}
