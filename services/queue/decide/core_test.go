package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
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
	h.want("e", waiting.PoolActive)
	// The window stays open: pods that arrive later are offered as soon as there is room.
	h.answer(h.offerOf("b"), events.DecisionFailed, nil)
	if diff := cmp.Diff([]string{"e"}, offered(h)); diff != "" {
		t.Fatal(diff)
	}
}

func TestOffersGoOnlyToTheHolderOfThePartition(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.step(Decided{CaughtUp: true})
	h.step(Lead{Term: 3})
	h.ask("s1", 10)
	h.want("a", waiting.PoolActive)
	h.ownAll("s2")
	h.want("a", waiting.PoolActive)
	h.ask("s2", 10)
	h.want("a", waiting.PoolOffered)
	first := h.offerOf("a")
	if first.Attempt != 1 || first.FactSequence != h.sequence || first.LeaseMillis != 10_000 {
		t.Fatalf("offer %+v", first)
	}
	// The partition leaves the shard: its transactions fail from now on.
	h.ownAll("s1")
	h.want("a", waiting.PoolOffered)
	if h.shards[h.offerOf("a").Token] != "s1" || h.counts.Expired != 1 {
		t.Fatalf("offered to %s, %d expired", h.shards[h.offerOf("a").Token], h.counts.Expired)
	}
}

// A queue that becomes the leader offers pods at once, by the requests that it received as a standby: shards send the
// next ones up to a heartbeat later.
func TestALeaderKnowsWhatShardsAskedBefore(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.add("b", 0)
	h.ask("s1", 1)
	h.want("a", waiting.PoolActive)
	h.lead()
	h.want("a", waiting.PoolOffered)
	h.want("b", waiting.PoolActive)
	h.step(StepDown{})
	h.want("a", waiting.PoolActive)
	h.ask("s1", 2)
	h.lead()
	h.want("a", waiting.PoolOffered)
	h.want("b", waiting.PoolOffered)
	h.step(StepDown{})
	h.sleep(time.Minute)
	h.lead()
	h.want("a", waiting.PoolActive)
	h.want("b", waiting.PoolActive)
}

func TestLeasesAreRenewedReturnedAndExpire(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.add("b", 0)
	h.ask("s1", 2)
	a, b := h.offerOf("a"), h.offerOf("b")
	h.now = h.now.Add(lease - time.Second)
	h.step(WorkRequested{Request: work.Request{Shard: "s1", Window: 0, Renew: []string{a.Token}}})
	// A shard can neither renew nor return another shard's offers.
	foreign := work.Request{Shard: "s2", Renew: []string{b.Token}, Return: []string{b.Token}}
	h.step(WorkRequested{Request: foreign})
	h.sleep(time.Second)
	h.want("a", waiting.PoolOffered)
	h.want("b", waiting.PoolActive)
	h.step(WorkRequested{Request: work.Request{Shard: "s1", Window: 1, Return: []string{a.Token}}})
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
	// A silent shard gets no more offers, and its leases expire.
	h.sleep(lease)
	h.want("b", waiting.PoolActive)
}

func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	for count, want := range []time.Duration{0, 1, 2, 4, 8, 10, 10, 10} {
		if got := waiting.Backoff(time.Second, 10*time.Second, int32(count)); got != want*time.Second {
			t.Errorf("backoff after %d failures is %s, want %s", count, got, want*time.Second)
		}
	}
	if got := waiting.Backoff(time.Second, 10*time.Second, 1000); got != 10*time.Second {
		t.Errorf("backoff after 1000 failures is %s", got)
	}
	if got := waiting.Backoff(time.Second, 0, 3); got != 0 {
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
		h.want("a", waiting.PoolBackoff)
		h.applyDecision(events.Decision{
			Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: h.version,
		})
		h.now = h.now.Add(want - time.Millisecond)
		h.ask("s1", 1)
		h.want("a", waiting.PoolBackoff)
		h.sleep(time.Millisecond)
		h.want("a", waiting.PoolOffered)
	}
	// The condition does not show yet: the pod waits for it beyond its backoff, but not forever.
	h.add("b", 1)
	h.ask("s1", 2)
	o := h.offerOf("b")
	h.answer(o, events.DecisionFailed, nil)
	h.applyDecision(events.Decision{
		Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: h.version + 1,
	})
	h.sleep(2 * time.Second)
	h.want("b", waiting.PoolBackoff)
	h.put("b", func(p *corev1.Pod) { p.Status.Message = "no node fits" })
	h.want("b", waiting.PoolOffered)
	h.answer(h.offerOf("b"), events.DecisionFailed, nil)
	h.sleep(condition - time.Millisecond)
	h.want("b", waiting.PoolBackoff)
	h.ask("s1", 2)
	h.sleep(time.Millisecond)
	h.want("b", waiting.PoolOffered)
}

func TestFlushRetriesWhatHintsMissed(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeName"))
	h.sleep(flushAfter - time.Millisecond)
	h.want("a", waiting.PoolParked)
	h.sleep(time.Millisecond)
	h.want("a", waiting.PoolActive)
	if h.counts.Flushed != 1 {
		t.Fatalf("flushed %d", h.counts.Flushed)
	}
}

// TestAVerdictMayEndWithTime checks that a pod whose verdict states when it ends is tried again then, although
// nothing has happened, and so are the pods that the verdict covers.
func TestAVerdictMayEndWithTime(t *testing.T) {
	const ends = 90 * time.Second
	ending := func(d *events.Decision) {
		d.Plugins, d.RetryAfter = []string{"NodeResourcesFit"}, ends
	}
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, ending)
	h.sleep(ends - time.Millisecond)
	h.want("a", waiting.PoolParked)
	h.sleep(time.Millisecond)
	h.want("a", waiting.PoolActive)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeName"))
	h.sleep(flushAfter - time.Millisecond)
	h.want("a", waiting.PoolParked)

	h = crowded(t)
	h.answer(h.offer(h.inHand()[0]), events.DecisionUnplaceable, ending)
	h.want("p19", waiting.PoolParked)
	h.sleep(ends - time.Millisecond)
	h.want("p19", waiting.PoolParked)
	h.sleep(time.Millisecond)
	h.want("p19", waiting.PoolActive)
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
	h.want("a", waiting.PoolBackoff)
	// A shard that was ahead of the queue has seen the event: it is not news.
	h.add("b", 5)
	h.ask("s1", 2)
	h.answer(h.offerOf("b"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactSequence = []string{"NodeResourcesFit"}, h.sequence+1
	})
	h.node("m", func(*corev1.Node) {})
	h.want("b", waiting.PoolParked)
	h.node("o", func(*corev1.Node) {})
	h.want("b", waiting.PoolBackoff)
	// Room that a reservation left while the attempt ran has no fact; its revision shows it.
	h.add("c", 9)
	h.hold(Hold{PodUID: "foreign", Live: true})
	h.ask("s1", 3)
	before := h.revision
	h.hold(Hold{PodUID: "foreign"})
	h.answer(h.offerOf("c"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.LedgerRevision = []string{"NodePorts"}, before
	})
	h.want("c", waiting.PoolBackoff)
}

func TestTheLedgerOutranksMessages(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	o := h.offerOf("a")
	placed := h.answer(o, events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 2 })
	h.want("a", waiting.PoolHeld)
	h.hold()
	h.want("a", waiting.PoolHeld) // the watch has not reached the reservation's revision
	h.hold(Hold{PodUID: "a", Live: true})
	// A verdict that is late, or repeated, changes nothing now.
	h.answer(o, events.DecisionUnplaceable, plugins("NodeName"))
	h.applyDecision(placed)
	h.want("a", waiting.PoolHeld)
	// The entry vanishes at a high-water the facts have not reached: no conclusion yet.
	h.hold(Hold{PodUID: "a", HW: h.progress + 2})
	h.want("a", waiting.PoolHeld)
	h.add("x", 0)
	h.want("a", waiting.PoolHeld)
	h.bind("a")
	h.want("a", waiting.PoolNone)
	if len(h.bound) != 1 || h.bound[0].Attempts != 1 || h.bound[0].FirstOffer.IsZero() {
		t.Fatalf("bound %+v", h.bound)
	}
}

// Facts may never reach a high-water of a generation of the ledger that has ended.
func TestNoPodWaitsForAHighWaterOfAnotherGeneration(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.hold(Hold{PodUID: "a", Live: true})
	h.hold(Hold{PodUID: "a", HW: h.progress + 1000})
	h.want("a", waiting.PoolHeld)
	h.revision++
	h.step(LedgerMoved{Revision: h.revision, Generation: true})
	h.want("a", waiting.PoolBackoff)
}

func TestAReleasedReservationBringsThePodBack(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.hold(Hold{PodUID: "a", Live: true})
	h.hold(Hold{PodUID: "a", HW: h.progress + 1})
	h.want("a", waiting.PoolHeld)
	h.put("a", func(p *corev1.Pod) { p.Annotations = map[string]string{"fence": "1"} })
	h.want("a", waiting.PoolBackoff)
	h.sleep(time.Second)
	h.want("a", waiting.PoolActive)
	// A message promised a reservation that the watch never showed.
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 1 })
	h.want("a", waiting.PoolHeld)
	h.hold()
	h.want("a", waiting.PoolBackoff)
	h.sleep(2 * time.Second)
	h.ask("s1", 1)
	h.want("a", waiting.PoolOffered)
	// A full list without the reservation.
	h.hold(Hold{PodUID: "a", Live: true})
	h.revision++
	h.step(LedgerMoved{Reset: true, Revision: h.revision})
	h.want("a", waiting.PoolBackoff)
}

// A shard has reported a reservation, and then the ledger was lost: it starts over at a revision far below the
// earlier one. The pod does not wait until the ledger has reached that revision again.
func TestAReservationOfALostLedgerIsNotWaitedFor(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 1_000_000 })
	h.want("a", waiting.PoolHeld)
	h.hold()
	h.sleep(29 * time.Second)
	h.want("a", waiting.PoolHeld)
	h.sleep(time.Second)
	h.want("a", waiting.PoolBackoff)
	h.sleep(2 * time.Second)
	h.want("a", waiting.PoolActive)
}

// A place that was held until victims have gone could never be bound: when it vanishes nothing has failed, and the
// pod does not wait, however often it was rejected before.
func TestAWithdrawnHoldBringsThePodBackAtOnce(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.ask("s1", 1)
	o := h.offerOf("a")
	h.hold(Hold{PodUID: "a", Live: true})
	h.answer(o, events.DecisionNominated, func(*events.Decision) {})
	h.want("a", waiting.PoolHeld)
	h.hold(Hold{PodUID: "a", HW: h.progress + 1, Withdrawn: true})
	h.want("a", waiting.PoolHeld) // another binder may have bound it
	h.add("x", 0)
	h.want("a", waiting.PoolOffered)
	h.answer(o, events.DecisionWithdrawn, func(*events.Decision) {})
	h.want("a", waiting.PoolOffered)
}

// A hold for plugins vanishes together with an answer to the attempt. Whichever is seen first, the pod moves to where
// the answer puts it; without an answer it backs off.
func TestAPreparedHoldEndsWithItsAnswer(t *testing.T) {
	gone := func(h *harness) Hold { return Hold{PodUID: "a", HW: h.progress, Prepared: true} }
	for _, test := range []struct {
		kind events.DecisionKind
		want waiting.Pool
	}{
		{events.DecisionUnplaceable, waiting.PoolParked}, {events.DecisionFailed, waiting.PoolBackoff},
		{"", waiting.PoolBackoff},
	} {
		for _, answerFirst := range []bool{true, false} {
			h := newHarness(t)
			h.add("a", 0)
			h.lead()
			h.ask("s1", 1)
			o := h.offerOf("a")
			h.hold(Hold{PodUID: "a", Live: true})
			answer := func() {
				if test.kind != "" {
					h.answer(o, test.kind, func(d *events.Decision) { d.Plugins = []string{"Custom"} })
				}
			}
			if answerFirst {
				answer()
				h.want("a", waiting.PoolHeld)
			}
			h.hold(gone(h))
			if !answerFirst {
				h.want("a", waiting.PoolBackoff) // not offered at once
				answer()
			}
			if got, why := h.core.Where("a"); got != test.want {
				t.Errorf("%s, answer first %v: the pod is %s (%s), want it %s", test.kind, answerFirst, got, why, test.want)
			}
		}
	}
}

// A pod that a plugin holds back waits for a change, and for no condition.
func TestAPodThatIsHeldBackIsParked(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionHeldBack, plugins("Custom"))
	h.want("a", waiting.PoolParked)
	h.node("n", func(*corev1.Node) {})
	h.want("a", waiting.PoolOffered) // early, which a pod that waits for a condition never is
}

func TestGatedAndForeignPods(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.put("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	h.put("b", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
	h.ask("s1", 5)
	h.want("a", waiting.PoolGated)
	h.want("b", waiting.PoolNone)
	h.put("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	h.want("a", waiting.PoolOffered)
	h.remove("a")
	h.want("a", waiting.PoolNone)
}

func TestPodsLeaveTheirBackoffEarly(t *testing.T) {
	h := newHarness(t)
	h.lead()
	shown := func(o work.Offer) {
		h.applyDecision(events.Decision{
			Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token,
			PodResourceVersion: h.pods[o.Pod.UID].ResourceVersion,
		})
	}
	h.node("n", func(*corev1.Node) {})
	for _, name := range []string{"low", "error", "waits"} {
		h.add(name, 0)
	}
	h.add("high", 9)
	h.ask("s1", 4)
	stale := func(d *events.Decision) { d.Plugins, d.FactSequence = []string{"NodeName"}, 0 }
	for _, name := range []string{"low", "waits", "high"} {
		h.answer(h.offerOf(name), events.DecisionUnplaceable, stale)
	}
	h.answer(h.offerOf("error"), events.DecisionFailed, nil)
	h.ask("s1", 1)
	for _, name := range []string{"low", "waits", "high", "error"} {
		h.want(name, waiting.PoolBackoff)
	}
	shown(h.offerOf("low"))
	h.want("low", waiting.PoolOffered)
	shown(h.offerOf("error"))
	shown(h.offerOf("high"))
	h.want("high", waiting.PoolBackoff)
	h.add("new", 0)
	h.ask("s1", 2)
	h.want("new", waiting.PoolOffered) // active pods come first, whatever their priority
	h.ask("s1", 9)
	h.want("high", waiting.PoolOffered)
	h.want("error", waiting.PoolBackoff)
	h.want("waits", waiting.PoolBackoff)
}

func TestRepeatedReleasesBackOff(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	for _, want := range []time.Duration{1, 2, 4, 8, 10} {
		h.hold(Hold{PodUID: "a", Live: true})
		h.hold(Hold{PodUID: "a"})
		if wait := max(0, time.Duration(h.core.backlog.pods["a"].Ready()-h.core.clock.now)); wait != want*time.Second {
			t.Fatalf("waits %s, want %s", wait, want*time.Second)
		}
	}
}

func TestTheClockMayJump(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.sleep(-time.Hour)
	h.want("a", waiting.PoolOffered)
	h.sleep(2 * time.Hour)
	h.want("a", waiting.PoolActive)
	h.sleep(-24 * time.Hour)
	h.ask("s1", 1)
	h.want("a", waiting.PoolOffered)
}

func TestRebuiltFacts(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.add("b", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeName"))
	h.want("a", waiting.PoolParked)
	h.sleep(10 * time.Second)
	delete(h.pods, "b")
	h.pods["c"] = state.NewPod(newPod("c"))
	h.sequence += 10
	h.step(FactsReset{Pods: []*state.Pod{h.pods["a"], h.pods["c"]}, Position: h.at()})
	h.want("a", waiting.PoolActive) // whatever it waited for may have happened
	h.want("b", waiting.PoolNone)
	h.want("c", waiting.PoolActive)
}

func TestDescribe(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("b", 0)
	h.add("a", 5)
	h.ask("s1", 1)
	want := strings.Join([]string{
		"queue queue-a leading=true term=1 facts=2 ledger=1",
		"shard s1 partitions=256 waiting=1 leased=1 window=1",
		"gated 0",
		"active 1",
		"  ns/b priority=0 attempts=0 waits for room in the window of s1 (partition " +
			fmt.Sprint(ledger.PartitionOf("b")) + ")",
		"backoff 0",
		"parked 0",
		"offered 1",
		"  ns/a priority=5 attempts=1 offered to s1 (token " + h.offerOf("a").Token + ")",
		"held 0",
		"grouped 0",
		"",
	}, "\n")
	if diff := cmp.Diff(want, h.core.Describe()); diff != "" {
		t.Fatal(diff)
	}
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeAffinity", "NodeResourcesFit"))
	want = strings.Join([]string{
		"queue queue-a leading=true term=1 facts=2 ledger=1",
		"gated 0", "active 0", "backoff 0", "parked 1", "offered 1", "held 0",
		"grouped 0",
		"held back by NodeAffinity of profile default-scheduler: 1",
		"held back by NodeResourcesFit of profile default-scheduler: 1",
		"shard s1 partitions=256 waiting=0 leased=1 window=1",
		"",
	}, "\n")
	if diff := cmp.Diff(want, h.core.Overview()); diff != "" {
		t.Fatal(diff)
	}
}

func TestTokensDoNotRepeat(t *testing.T) {
	c := New(Config{TokenSeed: 42})
	seen := map[ledger.Token]bool{}
	for range 10_000 {
		token := c.leases.newToken()
		if seen[token] || token == 0 {
			t.Fatalf("token %s", token)
		}
		seen[token] = true
	}
}

// TestAGroupSharesAPartition checks that pods with the same hard rule about zones are offered to one shard.
func TestAGroupSharesAPartition(t *testing.T) {
	h := newHarness(t)
	h.lead()
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	for _, name := range []string{"a", "b", "c"} {
		h.put(name, spread)
	}
	h.add("alone", 0)
	h.ask("s1", 4)
	want := h.offerOf("a").Partition
	for _, name := range []string{"b", "c"} {
		if got := h.offerOf(name).Partition; got != want {
			t.Errorf("pod %s is in partition %d, its group in %d", name, got, want)
		}
	}
	if got := h.offerOf("alone").Partition; got != ledger.PartitionOf("alone") || got == want {
		t.Errorf("a pod of its own is in partition %d, want %d", got, ledger.PartitionOf("alone"))
	}
}
