package decide

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

func TestAStandbyKnowsWhatTheLeaderKnows(t *testing.T) {
	h := newHarness(t)
	for _, name := range []string{"new", "parked", "failed", "held"} {
		h.add(name, 0)
	}
	h.hold(Hold{PodUID: "held", Live: true})
	h.ownAll("s1")
	h.ask("s1", 10) // a standby offers nothing
	decided := func(name string, kind events.DecisionKind, attempt int32) {
		o := work.Offer{Pod: events.PodRef{UID: name}, Token: "0000000000000001", Attempt: attempt}
		h.answer(o, kind, plugins("NodeName"))
	}
	decided("parked", events.DecisionUnplaceable, 3)
	decided("failed", events.DecisionFailed, 7)
	h.want("new", waiting.PoolActive)
	h.want("parked", waiting.PoolParked)
	h.want("failed", waiting.PoolBackoff)
	if h.counts.Offered != 0 {
		t.Fatalf("a standby offered %d", h.counts.Offered)
	}
	h.step(Lead{Term: 2})
	h.ask("s1", 10)
	h.want("new", waiting.PoolActive) // the decisions that were there at its start have not all been read
	h.step(Decided{CaughtUp: true})
	h.want("new", waiting.PoolOffered)
	h.want("parked", waiting.PoolParked)
	h.want("failed", waiting.PoolBackoff)
	h.want("held", waiting.PoolHeld)
	h.sleep(condition)
	h.ask("s1", 10)
	if o := h.offerOf("failed"); o.Attempt != 8 {
		t.Fatalf("attempt %d after 7", o.Attempt)
	}
	h.step(StepDown{})
	h.want("new", waiting.PoolActive)
	h.want("parked", waiting.PoolParked)
	h.bind("new")
	if len(h.bound) != 0 {
		t.Fatalf("a standby reported %+v", h.bound)
	}
}

// TestWhatAnOldLeaderOffered checks that the shards' answers to it are believed until the pod is offered again.
func TestWhatAnOldLeaderOffered(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.lead()
	old := work.Offer{Pod: events.PodRef{UID: "a"}, Token: "00000000000000aa", Attempt: 1}
	h.answer(old, events.DecisionUnplaceable, plugins("NodeName"))
	h.want("a", waiting.PoolParked)
	h.answer(old, events.DecisionUnplaceable, plugins("NodeName"))
	if n := h.core.backlog.pods["a"].Verdict.Rejections; n != 1 {
		t.Fatalf("one answer counted %d times", n)
	}
	h.node("n", func(*corev1.Node) {})
	h.sleep(condition)
	h.ask("s1", 1)
	h.want("a", waiting.PoolOffered)
	old.Attempt = 2 // the attempt that is in progress here, under another token
	h.answer(old, events.DecisionUnplaceable, plugins("NodeName"))
	h.want("a", waiting.PoolOffered)
}

// TestAnswersBeforeTheirPods covers a decisions log that is read faster than the facts.
func TestAnswersBeforeTheirPods(t *testing.T) {
	h := newHarness(t)
	decided := func(name string, kind events.DecisionKind, attempt int32, sequence uint64) {
		h.applyDecision(events.Decision{
			Kind: kind, Pod: events.PodRef{UID: name}, Token: fmt.Sprintf("%s-%d", name, attempt), Attempt: attempt,
			FactSequence: sequence, LedgerRevision: 1, Plugins: []string{"NodeName"}, Message: "no",
		})
	}
	for attempt := range int32(3) {
		decided("parked", events.DecisionUnplaceable, attempt+1, 20)
	}
	decided("old", events.DecisionUnplaceable, 1, 5)
	decided("failed", events.DecisionFailed, 1, 5)
	decided("failed", events.DecisionFailed, 2, 5)
	decided("gone", events.DecisionFailed, 2, 5)
	h.applyDecision(events.Decision{
		Kind: events.DecisionCondition, Pod: events.PodRef{UID: "failed"}, Token: "failed-2", PodResourceVersion: 1,
	})
	for _, name := range []string{"parked", "old", "failed"} {
		obj := newPod(name)
		obj.ResourceVersion = "1"
		h.pods[name] = state.NewPod(obj)
	}
	h.sequence = 10
	h.step(FactsReset{Pods: slices.Collect(maps.Values(h.pods)), Position: h.at()})
	h.want("parked", waiting.PoolParked)
	h.want("old", waiting.PoolBackoff) // what has happened since is not known
	h.want("failed", waiting.PoolBackoff)
	if len(h.core.backlog.unseen) != 0 {
		t.Fatalf("ghosts of %v", slices.Collect(maps.Keys(h.core.backlog.unseen)))
	}
	e := h.core.backlog.pods["parked"]
	if e.Attempt.Count != 3 || e.Verdict.Rejections != 3 || e.Verdict.Message != "no" {
		t.Fatalf("after three rejections: %+v", e)
	}
	e = h.core.backlog.pods["failed"]
	if wait := time.Duration(e.Ready() - h.core.clock.now); wait != 2*time.Second {
		t.Fatalf("after two errors in a row the pod waits %s, want 2s", wait)
	}
	decided("gone", events.DecisionFailed, 3, 10)
	if len(h.core.backlog.unseen) != 0 {
		t.Fatal("a pod that the facts would show has a ghost")
	}
}

// FuzzRecall checks that decoding ends in a memory or in an error, whatever is stored.
func FuzzRecall(f *testing.F) {
	h := newHarness(f)
	h.add("a", 0)
	failed := events.Decision{Kind: events.DecisionFailed, Pod: events.PodRef{UID: "a"}, Token: "1", Attempt: 3}
	h.applyDecision(failed)
	h.hold(Hold{PodUID: "b", Live: true})
	h.gated("ns", "c", "1")
	h.step(h.ungateOf("c", 2))
	data, _ := h.core.Remember()
	f.Add(data)
	f.Add([]byte{8, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		known, err := memory.Decode(data)
		if err != nil {
			return
		}
		c := New(testConfig("queue-b"))
		c.Step(Remembered{Memory: known}, time.Unix(0, 0))
		if err := c.Check(func(func(*state.Pod) bool) {}); err != nil {
			t.Fatal(err)
		}
	})
}
