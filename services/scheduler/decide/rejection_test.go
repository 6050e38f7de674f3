package decide_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// inFlight returns a world of one shard with a node that has room for one pod, and a transaction in flight for the
// first of the offered pods.
func inFlight(t *testing.T, pods ...string) (*world, *shard) {
	t.Helper()
	w := newWorld(t, 1, 1)
	w.addNode("n0", 1)
	for _, name := range pods {
		w.addPod(name)
	}
	w.settle()
	w.offer()
	s := w.shards[0]
	offers := s.offers
	s.offers = nil
	w.step(s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: offers}}})
	if s.commit == nil {
		t.Fatal("nothing was sent")
	}
	return w, s
}

// touchDoc changes the node's document, so that the transaction in flight loses.
func (w *world) touchDoc() {
	w.replace(ledger.NodeDoc{NodeUID: "node-n0", NodeName: "n0"}, nil)
}

// A withdrawn pod causes no fact and no change of the ledger, so nothing would wake a pod for it: a verdict that
// counts a staged pod waits until that pod is placed or withdrawn.
func TestRejectionWaitsForWhatItHasCounted(t *testing.T) {
	w, s := inFlight(t, "p0", "p1")
	if len(s.decisions) > 0 {
		t.Fatalf("told %+v while what it rests on may be taken back", s.decisions)
	}
	w.touchDoc()
	w.deletePod("pod-p0")
	w.step(s, step.Input{Facts: s.fold(follow.Batch{Facts: w.facts[s.fact:]})})
	s.fact = len(w.facts)
	w.settle()
	if len(s.decisions) != 1 || s.decisions[0].Kind != events.DecisionPlaced || s.decisions[0].Pod.Name != "p1" {
		t.Fatalf("decisions %+v: want p1 placed where p0 was not", s.decisions)
	}
}

func TestRejectionIsReportedWhenWhatItCountedIsConfirmed(t *testing.T) {
	w, s := inFlight(t, "p0", "p1")
	w.settle()
	kinds := map[string]events.DecisionKind{}
	for _, d := range s.decisions {
		kinds[d.Pod.Name] = d.Kind
	}
	if kinds["p0"] != events.DecisionPlaced || kinds["p1"] != events.DecisionUnplaceable {
		t.Fatalf("decisions %v: want p0 placed, p1 unplaceable", kinds)
	}
}

// A draining shard decides nothing more, so it must not keep an attempt that has lost a race until it stops: its
// partitions would wait for the end of its patience.
func TestDrainingShardGivesBackWhatLost(t *testing.T) {
	w, s := inFlight(t, "p0")
	w.touchDoc()
	w.step(s, step.Input{Drain: true})
	lost := step.Result{ID: s.commit.ID, Txn: w.commit(s.commit.Txn)}
	out, err := checked(s.core.Step(step.Input{Results: []step.Result{lost}}, time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	if !out.Idle {
		t.Fatal("it still has something in hand")
	}
}

// If a lost compare shows the new owner of a partition, the watch brings no further change: the keeper must observe
// the owner at once, or it never will.
func TestOwnerLearnedFromALostCompareIsAChange(t *testing.T) {
	w, s := inFlight(t, "p0")
	s.core.Ownership()
	p := ledger.PartitionOf("pod-p0")
	kvs, _, err := w.store.List(context.Background(), roster.KeyOwn(p))
	if err != nil {
		t.Fatal(err)
	}
	release, err := roster.ReleasePartition(p, kvs[0].CreateRevision)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(release)
	session, err := w.store.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	take, err := roster.TakePartition(p, roster.Owner{Member: "another"}, session.Lease())
	if err != nil {
		t.Fatal(err)
	}
	w.commit(take)
	in := step.Input{Results: []step.Result{{ID: s.commit.ID, Txn: w.commit(s.commit.Txn)}}}
	s.commit = nil
	w.step(s, in)
	w.settle()
	if ownership, moved := s.core.Ownership(); !moved || ownership.Holders[p].Member != "another" {
		t.Fatalf("moved %t, holder %q: want it to be another's", moved, ownership.Holders[p].Member)
	}
}
