package decide

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// setIncarnation sets in the binder's view which node the name n0 stands for.
func (r *rig) setIncarnation(nodeUID string, nodeRV uint64) {
	r.Helper()
	i := ledger.Incarnation{NodeName: "n0", NodeUID: nodeUID, NodeRV: nodeRV}
	value, err := codec.EncodeIncarnation(i)
	if err != nil {
		r.Fatal(err)
	}
	kv := ledger.KV{Key: ledger.KeyIncarnation(i.NodeName), Value: value, ModRevision: 1}
	if _, err := r.b.core.base.Ledger.Apply(ledger.EventBatch{Revision: 1, Events: []ledger.Event{{KV: kv}}}); err != nil {
		r.Fatal(err)
	}
}

// A reservation for a node whose name stands for a later node is taken back.
func TestReservationForTheNodeBefore(t *testing.T) {
	r := newRig(t, 1)
	r.setIncarnation("later-uid", 500)
	r.reserve()
	r.expectFence("has registered again")
}

// A reservation for a later node than the one that its name stands for is bound. Where all shards are of a version
// before incarnations, none admits the node; taking the reservation back would repeat forever.
func TestReservationForALaterNode(t *testing.T) {
	r := newRig(t, 1)
	r.setIncarnation("before-uid", 500)
	if !r.replace(ledger.NodeDoc{NodeUID: "n0-uid", NodeName: "n0", HW: map[string]uint64{ledger.KindNode: 501}}) {
		t.Fatal("not written")
	}
	r.see()
	r.reserve()
	run[effect.Bind](r, delivered)
}
