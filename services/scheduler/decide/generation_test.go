package decide_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// begins opens a generation of the ledger that requires facts after an epoch, and shows it to the shard.
func (st *scenario) begins(factsAfter uint64) {
	st.t.Helper()
	id, err := st.store.ID(st.t.Context())
	if err != nil {
		st.t.Fatal(err)
	}
	next, txn, err := identity.Generation{}.Next(id, "Kubernetes was restored", ledger.Floor{}, factsAfter)
	if err != nil {
		st.t.Fatal(err)
	}
	next.Revision = st.commit(txn).Revision
	hw := map[string]uint64{ledger.KindPod: 1, ledger.KindNode: 1}
	if txn, err = next.OpenAt(hw, ledger.Floor{Revision: next.Revision}); err != nil {
		st.t.Fatal(err)
	}
	if !st.commit(txn).Succeeded {
		st.t.Fatal("the generation was not opened")
	}
	st.deliverLedger()
}

// Kubernetes was restored from a backup, and the shard still has the facts from before. Their resourceVersions are
// beyond every high-water mark, and still nothing is decided on them.
func TestNothingIsDecidedOnFactsOfBeforeARestore(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	before := len(st.facts)
	st.begins(3)
	st.pod("p")
	if st.s.commit != nil || st.s.core.Ready() {
		t.Fatalf("decided on facts of before: %+v, ready: %t", st.s.commit, st.s.core.Ready())
	}
	published := st.facts[before:]
	st.fact(events.Fact{Op: events.OpEpochBegin}) // all facts are published again, in epoch 4
	st.publishNode(st.nodeObjects["n0"])
	for _, f := range published {
		st.fact(f.Fact)
	}
	for _, kind := range []events.Kind{events.KindNode, events.KindPod} {
		st.fact(events.Fact{Kind: kind, Op: events.OpProgress})
	}
	st.fact(events.Fact{Op: events.OpEpochEnd})
	again := st.facts[before+len(published):]
	for i := range again {
		again[i].Epoch = 4
	}
	again[0].Progress = 0
	st.deliverFacts()
	if got := st.target(); got != "n0" {
		t.Errorf("the pod goes to %q when the facts are told, want n0", got)
	}
}
