package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// newLine has n pods, each reserved on its own node, the first of which is being bound.
func newLine(t *testing.T, n int) *rig {
	w := newWorld(1, n, n, ablation{})
	r := &rig{T: t, world: w, b: w.binders[0]}
	return r
}

// reserveAll places p0 on n0, p1 on n1, and so on.
func (r *rig) reserveAll() {
	r.Helper()
	r.see()
	for i, s := range r.shards {
		s.facts, s.docs = len(r.api.history)-1, len(r.ledger.history)
		if !r.place(i, i) {
			r.Fatalf("the shard could not place p%d", i)
		}
	}
	r.showDocs(r.b, len(r.ledger.history))
}

// bindNext carries out the one bind that has a turn, and returns whose it was.
func (r *rig) bindNext() string {
	r.Helper()
	return run[effect.Bind](r, delivered).Pod.Name
}

func TestBindsTakeTurns(t *testing.T) {
	r := newLine(t, 4)
	r.api.changePod("p3-uid", func(p *corev1.Pod) {
		p.Generation++
		p.Spec.Priority = ptr.To[int32](7)
	})
	r.reserveAll()
	for i, want := range []string{"p0", "p3", "p1", "p2"} {
		if got := r.bindNext(); got != want {
			t.Fatalf("turn %d went to %s, want %s: by priority, then first come, first served", i, got, want)
		}
	}
	r.quiet("all are bound")
}

// A queue that is longer than pods live must not bind only pods that are gone.
func TestPodsThatAreGoneTakeNoTurn(t *testing.T) {
	r := newLine(t, 4)
	r.reserveAll()
	for _, uid := range []string{"p1-uid", "p2-uid"} {
		r.api.deletePod(uid)
	}
	r.see()
	for i, want := range []string{"p0", "p3"} {
		if got := r.bindNext(); got != want {
			t.Fatalf("turn %d went to %s, want %s", i, got, want)
		}
	}
	r.wantDecisions(events.DecisionBound, events.DecisionBound)
	r.quiet("the others are gone")
}

func TestWaitingForATurnIsNoFailure(t *testing.T) {
	r := newLine(t, 2)
	r.reserveAll()
	r.wait(2 * r.limits.BindDeadline)
	if got := r.bindNext(); got != "p0" {
		t.Fatalf("first turn: %s", got)
	}
	if got := r.bindNext(); got != "p1" {
		t.Fatalf("second turn: %s", got)
	}
	r.quiet("both are bound")
}

// The time in the queue does not count for a pod's deadline; the rest does.
func TestABindThatNeverSucceedsIsFencedInALineToo(t *testing.T) {
	r := newLine(t, 2)
	r.reserveAll()
	for tries := 0; tries < 100; tries++ {
		if mark, ok := r.b.lines[0].(effect.Transact); ok {
			if mark.Why != "fence-mark" || tries < 4 {
				t.Fatalf("%s after %d tries", mark.Why, tries)
			}
			return
		}
		// Both get a turn again and again, and no request arrives.
		run[effect.Bind](r, requestLost)
		for len(r.b.lines) == 0 {
			r.wait(100 * time.Millisecond)
		}
	}
	t.Fatal("never fenced")
}

func TestALinedUpPodOfAnotherPartitionIsLeftAlone(t *testing.T) {
	r := newLine(t, 3)
	r.reserveAll()
	r.hold(r.b, false)
	r.bindNext()
	r.quiet("the others are no longer ours")
	r.hold(r.b, true)
	for _, want := range []string{"p1", "p2"} {
		if got := r.bindNext(); got != want {
			t.Fatalf("turn of %s, want %s", got, want)
		}
	}
}

// A reservation that is wanted back does not queue for its bind: the pod that wants it would wait for the queue.
func TestWantedReservationLeavesTheLine(t *testing.T) {
	r := newLine(t, 3)
	r.reserveAll()
	d := r.ledger.current[ledger.KeyNode("n2-uid")]
	wanted, _, err := txns.MarkWanted(d, "p2-uid", d.Entries[0].Token)
	if err != nil || !r.replace(wanted) {
		t.Fatal("not marked", err)
	}
	r.showDocs(r.b, len(r.ledger.history))
	if bind, is := r.b.lines[0].(effect.Bind); !is || bind.Pod.Name != "p0" {
		t.Fatalf("effects to be sent: %s, want the bind of p0 first", lines(r.b))
	}
	r.b.lines = r.b.lines[1:]
	if mark := run[effect.Transact](r, delivered); mark.Why != "fence-mark" || mark.NodeUID != "n2-uid" {
		t.Errorf("%+v, want the first step of p2's fence", mark)
	}
}

// Another binder has begun to fence a reservation that waits for its turn. When the turn comes, the fence has been idle
// since the mark, however long the reservation has waited before.
func TestWaitForATurnDelaysNoFence(t *testing.T) {
	r := newLine(t, 2)
	r.reserveAll()
	r.wait(10 * r.limits.Idle)
	d := r.ledger.current[ledger.KeyNode("n1-uid")]
	next, err := txns.MarkFencing(d, "p1-uid", d.Entries[0].Token, ledger.FenceByNode)
	if err != nil || !r.replace(next) {
		t.Fatal("not marked", err)
	}
	r.showDocs(r.b, len(r.ledger.history))
	if got := r.bindNext(); got != "p0" {
		t.Fatalf("first turn: %s", got)
	}
	r.wait(r.limits.Idle + time.Second)
	for _, e := range r.b.lines {
		if fence, is := e.(effect.FencePod); is && fence.Pod.Name == "p1" {
			return
		}
	}
	t.Errorf("effects to be sent: %s, want p1's fence", lines(r.b))
}
