package watchdog

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// TestMonitorOfALogThatIsReadAgain checks that a log that has lost records is read once more, and no release counts
// twice. What the flush has found is not in the log.
func TestMonitorOfALogThatIsReadAgain(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	v, facts, last := New(), state.New(), uint64(2)
	v.Caught(1, noon)
	var batch intake.DecisionBatch
	for i := range last {
		batch.Decisions = append(batch.Decisions, events.SequencedDecision{Sequence: i + 1, Decision: events.Decision{
			Kind: events.DecisionReleased, Pod: events.PodRef{UID: "u", Namespace: "shop", Name: "web"},
		}})
		batch.Times = append(batch.Times, noon.Add(time.Duration(i)*time.Second))
	}
	v.Record(batch, facts.Snapshot())
	v.Record(intake.DecisionBatch{LostTail: &last}, facts.Snapshot())
	v.Record(batch, facts.Snapshot())
	v.Evaluate(replica.NewView(), decide.New(decide.Config{Queue: "queue-a"}), noon.Add(time.Minute), true)
	for rule, n := range v.Status().Anomalies.Found {
		if want := map[anomaly.Rule]int{anomaly.CaughtBySweep: 1}[rule]; n != want {
			t.Errorf("%d of %s, want %d: %+v", n, rule, want, v.Status().Anomalies.Findings)
		}
	}
}

// The age of a ledger entry counts from when it was first seen, even if this replica does not lead; the leader
// reports it, and pods that are evicted again and again.
func TestMonitor(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	view := replica.NewView()
	doc := ledger.NodeDoc{NodeUID: "u1", NodeName: "n1", Entries: []ledger.Entry{{
		PodUID: "p1", Namespace: "shop", Name: "cart", Role: ledger.RoleReservation, State: ledger.Committed, Token: 7,
		Shard: "scheduler-0", SchedulerName: "default-scheduler", PodRV: 3,
	}}}
	value, err := codec.EncodeNodeDoc(doc)
	if err != nil {
		t.Fatal(err)
	}
	kv := ledger.KV{Key: ledger.KeyNode("u1"), Value: value, ModRevision: 5, CreateRevision: 5}
	if err := view.Reset([]ledger.KV{kv}, 5); err != nil {
		t.Fatal(err)
	}
	core := decide.New(decide.Config{Queue: "queue-a"})
	v := New()
	v.Evaluate(view, core, noon, false)
	if len(v.Status().Entries) > 0 {
		t.Errorf("a replica that does not lead reports %v", v.Status().Entries)
	}
	v.Evaluate(view, core, noon.Add(3*time.Minute), true)
	if n := v.Status().Anomalies.Found[anomaly.HoldOverdue]; n != 1 {
		t.Errorf("%d entries are overdue, want 1: %+v", n, v.Status())
	}
	if len(v.Status().Entries) != 1 || v.Status().Entries[0].Oldest != 3*time.Minute {
		t.Errorf("entries %+v", v.Status().Entries)
	}

	controller := true
	facts := state.New()
	for i, at := range []time.Time{noon, noon.Add(time.Minute), noon.Add(2 * time.Minute)} {
		obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "web-uid", CreationTimestamp: metav1.NewTime(at), ResourceVersion: "9",
			OwnerReferences: []metav1.OwnerReference{{UID: "owner", Controller: &controller, Kind: "ReplicaSet", Name: "web"}},
		}}
		raw, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := facts.Apply([]events.SequencedFact{{Sequence: uint64(i + 1), Fact: events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: "web-uid", Namespace: "shop", Name: "web",
			ResourceVersion: uint64(9 + i), Object: raw,
		}}}); err != nil {
			t.Fatal(err)
		}
		v.Record(intake.DecisionBatch{
			Decisions: []events.SequencedDecision{{Decision: events.Decision{
				Kind: events.DecisionEvicted, Pod: events.PodRef{UID: "web-uid", Namespace: "shop", Name: "web"},
			}}},
			Times: []time.Time{at.Add(30 * time.Second)},
		}, facts.Snapshot())
	}
	if w := workloadOf(facts.Snapshot(), "web-uid"); w.Owner != "owner" || !w.Created.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("workload %+v", w)
	}
	v.Evaluate(view, core, noon.Add(3*time.Minute), true)
	if n := v.Status().Anomalies.Found[anomaly.PreemptedAgain]; n != 1 {
		t.Errorf("%d workloads are preempted again and again, want 1: %+v", n, v.Status().Anomalies)
	}
	if w := workloadOf(facts.Snapshot(), "nobody"); w != (anomaly.Workload{}) {
		t.Errorf("workload of a pod that is gone: %+v", w)
	}
}
