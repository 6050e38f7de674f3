package decide

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// allocationsOfBind is how many allocations the core may make from a reservation in the ledger to the answered bind,
// a fifth more than it makes, in addition to those of its ledger view.
const allocationsOfBind = 36

func TestAllocationsOfBinds(t *testing.T) {
	const pods = 100
	w := newWorld(1, pods+1, pods+1, ablation{})
	b := w.binders[0]
	w.showFacts(b, len(w.api.history)-1)
	for i := range pods + 1 {
		w.shards[i].facts, w.shards[i].docs = len(w.api.history)-1, len(w.ledger.history)
		if !w.place(i, i) {
			t.Fatalf("the shard could not place p%d", i)
		}
	}
	docs := w.ledger.history[b.docs:]
	moved := make([]effect.LedgerChanged, 0, len(docs))
	for _, d := range docs {
		moved = append(moved, docsMoved(d))
	}
	view := replica.NewView()
	var next int
	ofView := testing.AllocsPerRun(pods, func() {
		next++
		if _, err := view.Fold(moved[next-1].Batch); err != nil {
			t.Fatal(err)
		}
	})
	next = 0
	got := testing.AllocsPerRun(pods, func() { // and once more before
		next++
		effects := b.core.Step(moved[next-1], b.now)
		if len(effects) != 1 {
			t.Fatalf("%d effects of reservation %d, want a bind", len(effects), next)
		}
		bind, ok := effects[0].(effect.Bind)
		if !ok {
			t.Fatalf("effect %T, want a bind", effects[0])
		}
		if sent := b.core.Step(effect.Answered{Op: bind.Op, Result: effect.Done}, b.now); len(sent) != 2 {
			t.Fatalf("%d effects of the answer, want a decision and an event", len(sent))
		}
	})
	if got-ofView > allocationsOfBind {
		t.Errorf("%.0f allocations a bind, want at most %d beside the view's %.0f", got, allocationsOfBind, ofView)
	}
}
