package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// without shows the binder facts in which the objects of some keys are gone.
func (r *planRig) without(gone ...string) {
	v := r.api.history[r.b.facts]
	r.step(r.b, effect.FactsChanged{
		Cluster: v, Sequence: uint64(r.b.facts + 1), PodProgress: v.rv, PodProgressKnown: true, BudgetProgress: v.rv,
		Exists: func(key string) bool { return !slices.Contains(gone, key) },
	})
}

// keys returns the keys of the ledger with some prefixes.
func (r *planRig) keys(prefixes ...string) (keys []string) {
	for key := range r.kv.keys {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// leave puts documents of a node, a budget, a volume and a pool that promise nothing: those of the volume and of the
// pool name pods whose reservations were handed over.
func (r *planRig) leave() []string {
	r.Helper()
	doc := ledger.NodeDoc{NodeUID: "gone-uid", NodeName: "gone", HW: map[string]uint64{ledger.KindPod: 7}}
	change := txns.Change{
		Docs:    []ledger.NodeDoc{doc},
		Budgets: []ledger.BudgetDoc{{UID: "gone-pdb", HW: map[string]uint64{ledger.KindBudget: 8}}},
		Exclusives: []ledger.ExclusiveDoc{
			{
				Key: ledger.KeyVolume("gone-claim"), HW: map[string]uint64{ledger.KindPod: 9},
				Holders: []ledger.Holder{{PodUID: "gone-pod", Token: 77, NodeUID: doc.NodeUID}},
			},
			{
				Key:     ledger.KeyPool("driver", "gone-pool"),
				Holders: []ledger.Holder{{PodUID: "gone-pod", Token: 77, NodeUID: "earlier-uid", Items: []string{"0"}}},
			},
		},
	}
	txn, err := change.Txn()
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.commit(txn); err != nil {
		r.Fatal(err)
	}
	r.see()
	return []string{
		ledger.KeyNode("gone-uid"), ledger.KeyBudget("gone-pdb"), ledger.KeyVolume("gone-claim"),
		ledger.KeyPool("driver", "gone-pool"),
	}
}

// Documents of objects that are gone are deleted after a time; their high-waters are in the floor.
func TestDocumentsOfGoneObjectsAreCollected(t *testing.T) {
	r := newPlanRig(t, 1)
	before := r.keys("n/", "b/", "x/", "incarnation/")
	gone := r.leave()
	r.without(gone...)
	r.wait(time.Second)
	r.quiet("just seen to be gone")
	r.wait(r.limits.Collect / 2)
	r.without() // back again, if only for a moment
	r.wait(r.limits.CollectEvery)
	r.without(gone...)
	r.wait(r.limits.CollectEvery)
	r.wait(r.limits.Collect - r.limits.CollectEvery)
	r.quiet("not gone for long enough")
	r.wait(2 * r.limits.CollectEvery)
	r.commitAmend("collect")
	if after := r.keys("n/", "b/", "x/", "incarnation/"); !slices.Equal(before, after) {
		t.Errorf("keys %q, want those of before, %q", after, before)
	}
	if hw := r.truth.Floor().HW; hw[ledger.KindPod] != 9 || hw[ledger.KindBudget] != 8 {
		t.Errorf("the floor is %v, want what was collected", hw)
	}
	r.see()
	r.wait(2 * r.limits.CollectEvery)
	r.quiet("nothing is left to collect")
}

// A document with a promise stays, and for one that is used in the meantime the time starts again.
func TestDocumentsInUseAreNotCollected(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v0")
	gone := append(r.leave(), ledger.KeyNode("n0-uid"), ledger.KeyBudget(pdbUID))
	r.b.lines = nil
	r.b.core.base.Draining = true
	r.without(gone...)
	r.wait(r.limits.Collect + 2*r.limits.CollectEvery)
	r.quiet("a binder that drains")
	r.b.core.base.Draining = false
	if due := r.b.core.sweeper.GoneFor(time.Nanosecond); len(due) > 0 {
		t.Errorf("%q were noted while draining", due)
	}
	due := r.b.core.sweeper.GoneFor(0)
	if slices.Contains(due, ledger.KeyNode("n0-uid")) || slices.Contains(due, ledger.KeyBudget(pdbUID)) || len(due) != 4 {
		t.Errorf("%q are to be collected, want the four that are empty", due)
	}
}
