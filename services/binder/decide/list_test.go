package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// closes begins another generation of the ledger, which is closed.
func (r *planRig) closes() {
	r.Helper()
	_, txn, err := identity.Generation{}.Next(1, "lost", ledger.Floor{}, 0)
	if err != nil {
		r.Fatal(err)
	}
	if res, err := r.commit(txn); err != nil || !res.Succeeded {
		r.Fatal(res, err)
	}
}

// The watch was compacted while the binder was cut off from the ledger, and the list that replaces it is folded in
// after the answer of a later transaction of the binder.
//
//  1. The binder's mark of v4 is in flight. The ledger's generation is closed at W+1, and the watch from
//     there is compacted.
//  2. The ledger is listed at W+1.
//  3. The mark is carried out at W+2. Its answer is applied, and so the eviction is sent; it gets no answer.
//  4. The list arrives. It shows that the ledger is closed, and does not contain the mark.
func TestListBehindAnOwnTransaction(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.closes()
	list := r.listed(r.b)
	r.commitAmend("evict-mark")
	answerNext(r, func(e effect.Evict) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "connection reset"}
	})
	r.step(r.b, list)
	if r.b.core.base.Ledger.IsOpen() {
		t.Error("the ledger is open to the binder, and was closed before what its picture claims to know")
	}
	if !r.b.core.evictor.UnderWay("v4-uid") {
		t.Error("want a removal that knows of the eviction on its way")
	}
	r.wait(10 * time.Second)
	r.quiet("the ledger is closed")
	r.see()
	r.wait(10 * time.Second)
	r.quiet("the ledger is still closed")
}

// A list, or a deletion, does not drop a document that the binder itself has written since.
func TestWhatIsOlderThanAnOwnDocumentLeavesIt(t *testing.T) {
	for name, older := range map[string]func(r *planRig) effect.LedgerChanged{
		"list": func(r *planRig) effect.LedgerChanged { return r.listed(r.b) },
		"deletion": func(r *planRig) effect.LedgerChanged {
			return effect.LedgerChanged{Batch: replica.Batch{
				Events: ledger.EventBatch{Revision: r.kv.revision, Events: []ledger.Event{
					{Deleted: true, KV: ledger.KV{Key: ledger.KeyNode("n0-uid"), ModRevision: r.kv.revision}},
				}},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			in := older(r)
			r.receive(orderEvict("v4", 1))
			r.commitAmend("evict-claim")
			r.step(r.b, in)
			if d, ok := r.b.core.documents.Get("n0-uid"); !ok || d.Revision <= in.Batch.Events.Revision {
				t.Errorf("document %+v: want that of the claim", d)
			}
		})
	}
}

// A binder whose view of the ledger cannot be advanced has a gap in it, and must not act on it. From then on it only
// ends.
func TestBinderEndsWithAGapInItsView(t *testing.T) {
	broken := ledger.KV{Key: ledger.KeyNode("n1-uid"), Value: []byte{0xff}, ModRevision: 1000}
	for name, in := range map[string]effect.Input{
		"a list of before": effect.LedgerChanged{Batch: replica.Batch{
			Reset: true, Events: ledger.EventBatch{Revision: 1},
		}},
		"a change that cannot be read": effect.LedgerChanged{Batch: replica.Batch{
			Events: ledger.EventBatch{Revision: 1000, Events: []ledger.Event{{KV: broken}}},
		}},
		"an answer that cannot be read": effect.Amended{Result: effect.Lost, KVs: []ledger.KV{broken}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			r.nominated(0, "v4")
			c := r.b.core
			for i, step := range []effect.Input{in, effect.Tick{}, effect.PartitionsChanged{Held: []int32{1}}} {
				out := c.Step(step, r.b.now.Add(time.Duration(i)*time.Minute))
				stop, is := effect.Stop{}, false
				if len(out) == 1 {
					stop, is = out[0].(effect.Stop)
				}
				if !is || stop.Err == nil {
					t.Fatalf("step %d: effects %+v, want that the binder ends and nothing else", i, out)
				}
			}
			var replaced *ledger.StoreReplacedError
			if name == "a list of before" && !errors.As(c.stop, &replaced) {
				t.Errorf("%v, want that the store went back", c.stop)
			}
		})
	}
}
