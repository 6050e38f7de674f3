package txns

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

func TestPinAndUnpin(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1))
	keeper := ledger.Entry{PodUID: "k", Namespace: "ns", Name: "k"}
	pin := func(d ledger.NodeDoc, uid string, rv uint64) ledger.NodeDoc {
		t.Helper()
		out, err := sampletest.Frozen(t, d, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			return Pin(d, keeper, ledger.Dependent{PodUID: uid, PodRV: rv})
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := append(invariant.CheckDoc(out), invariant.CheckSuccessor(d,
			sampletest.At(out, d.Revision+1))...); len(v) > 0 {
			t.Fatal(v)
		}
		return out
	}
	d = pin(pin(d, "a", 60), "b", 70)
	if len(d.Entries) != 2 || len(d.Entries[1].Dependents) != 2 {
		t.Fatalf("%+v, want one pin for both", d)
	}
	if _, err := Place(d, ledger.Entry{PodUID: "k", Role: ledger.RoleVictim, Plan: "x"}); !errors.As(err,
		new(*ClaimedError)) {
		t.Errorf("a pinned pod was claimed: %v", err)
	}
	one, changed := Finish(d, factsOf{"a": 80, "p": 0, "b": 0})
	if !changed || len(one.Entries[1].Dependents) != 1 || one.HW[ledger.KindPod] != 80 {
		t.Errorf("a is bound at 80: %+v", one)
	}
	none, changed := Finish(one, factsOf{"p": 0, "a": 80}) // b is gone
	if !changed || len(none.Entries) != 1 || none.HW[ledger.KindPod] != factProgress {
		t.Errorf("b is gone: %+v", none)
	}
	crowded := d
	for i := range MaxDependents {
		var err error
		if crowded, err = Pin(crowded, keeper, ledger.Dependent{PodUID: fmt.Sprintf("pod-%d", i), PodRV: 1}); err != nil {
			if !errors.As(err, new(*ledger.DocTooLargeError)) || i != MaxDependents-2 {
				t.Fatalf("dependent %d: %v", i, err)
			}
			return
		}
	}
	t.Error("no limit")
}

// factsOf maps pods to the resourceVersion at which they are bound, 0 for unbound.
type factsOf map[string]uint64

const factProgress = 100

func (f factsOf) PodFact(uid string) (uint64, bool, bool) {
	rv, known := f[uid]
	return rv, rv > 0, known
}

func (f factsOf) PodProgress() uint64 { return factProgress }

func compared(key string, revision int64) registry.GuardUse {
	return registry.GuardUse{Key: key, Compare: true, Revision: revision}
}

// What a placement needs of other nodes is checked when its transaction is built.
func TestNeedsOfABatch(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1))
	b := PlaceBatch{Epochs: map[int32]int64{d.Entries[0].Partition(): 1}, Docs: []ledger.NodeDoc{d},
		Placed: []ledger.Token{1}}
	for want, n := range map[string]Needs{
		"guard \"n/x\"":            {Guards: []registry.GuardUse{{Key: "n/x", Put: true}}},
		"revisions 1 and 2":        {Guards: []registry.GuardUse{compared("g/i/d/c", 1), compared("g/i/d/c", 2)}},
		"whose document is not gi": {Pins: []string{"elsewhere"}},
	} {
		b.Needs = map[ledger.Token]Needs{1: n}
		if _, err := b.Txn(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", n, err, want)
		}
	}
	b.Needs = map[ledger.Token]Needs{1: {Guards: []registry.GuardUse{
		{Key: "g/i/d/c", Compare: true, Revision: 4}, {Key: "g/i/d/c", Put: true}, {Key: "g/i/d/m", Put: true},
	}}}
	txn, err := b.Txn()
	want := ledger.Compare{Key: "g/i/d/c", Target: ledger.ModRevision, Revision: 4}
	if err != nil || len(txn.Puts) != 3 || !slices.Contains(txn.Compares, want) {
		t.Errorf("%+v, %v: want one compare and two puts of guards", txn, err)
	}
}
