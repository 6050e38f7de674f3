package decide

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// turnAway is the kubelet's rejection of p0, which is bound; the binder sees both versions of it.
func (r *rig) turnAway(annotations map[string]string) *state.Pod {
	r.api.write(func(v *apiVersion) {
		obj := v.pods["p0-uid"].Object().DeepCopy()
		obj.Spec.NodeName, obj.Annotations = "n0", annotations
		obj.Status = corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu",
		}
		v.pods["p0-uid"] = state.NewPod(obj)
	})
	return r.api.now().pods["p0-uid"]
}

func (r *rig) showRejected(p *state.Pod) []effect.Effect {
	v := r.api.now()
	return r.b.core.Step(effect.FactsChanged{
		Cluster: v, Sequence: uint64(len(r.api.history)), PodProgress: v.rv, PodProgressKnown: true,
		Rejected: []*state.Pod{p},
	}, r.b.now)
}

func TestKubeletsRejectionIsCountedAndReported(t *testing.T) {
	r := newRig(t, 1)
	p := r.turnAway(map[string]string{effect.AnnotationAttempt: "00f1a2b3c4d5e6f7"})
	got := r.showRejected(p)
	want := []effect.Effect{
		effect.Rejected{Pod: about("p0"), NodeName: "n0", Reason: "OutOfcpu"},
		effect.Publish{Decision: events.Decision{
			Kind: events.DecisionRejected, Pod: about("p0"), Actor: r.b.id, Token: "00f1a2b3c4d5e6f7", NodeName: "n0",
			Message:            "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu",
			PodResourceVersion: p.ResourceVersion, FactSequence: uint64(len(r.api.history)),
			LedgerRevision: r.b.core.base.Revision,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// A rejected pod that its user has bound is not reported, nor is one of another binder's partition.
func TestKubeletsRejectionOfOthersPods(t *testing.T) {
	r := newRig(t, 1)
	p := r.turnAway(nil)
	if got := r.showRejected(p); len(got) != 0 {
		t.Errorf("effects %v for a foreign pod", got)
	}
	p = r.turnAway(map[string]string{effect.AnnotationAttempt: "00f1a2b3c4d5e6f7"})
	r.hold(r.b, false)
	if got := r.showRejected(p); len(got) != 0 {
		t.Errorf("effects %v for the pod of another binder", got)
	}
}

// A reservation that waits for a permit (victims, a gang, a volume) is Held: never bound and never fenced, however
// long it takes, and bound at once when its shard has promoted it.
func TestHeldWaitsForItsPermit(t *testing.T) {
	r := newRig(t, 1)
	p := r.api.now().pods["p0-uid"]
	entry := ledger.Entry{
		PodUID: p.UID, Namespace: "ns", Name: p.Name, Role: ledger.RoleReservation, State: ledger.Held,
		PodRV: p.ResourceVersion, Token: 7, SchedulerName: "berth",
	}
	d, err := txns.Place(ledger.NodeDoc{NodeUID: "n0-uid", NodeName: "n0"}, entry)
	if err != nil {
		t.Fatal(err)
	}
	if !r.replace(d) {
		t.Fatal("not written")
	}
	r.see()
	for range 20 {
		r.wait(r.limits.BindDeadline)
		r.quiet("Held")
	}
	d = r.doc()
	d.Entries = append([]ledger.Entry{}, d.Entries...)
	d.Entries[0].State = ledger.Committed
	if !r.replace(d) {
		t.Fatal("not promoted")
	}
	r.see()
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
}

// An entry about which every hint and answer was lost is bound by the binder that sweeps; if that is not possible, it
// is fenced, and none is left for good.
func TestIdleEntryIsSentAgainThenFenced(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	unknown := func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "no answer"}
	}
	first := answer(r, unknown)
	for range 40 {
		r.wait(100 * time.Millisecond)
		if len(r.b.lines) == 0 {
			continue
		}
		if _, fencing := r.b.lines[0].(effect.Transact); fencing {
			r.published = nil
			r.expectFence("not bound within")
			return
		}
		again := answer(r, unknown)
		again.Op = first.Op
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("another bind than the first (-want +got):\n%s", diff)
		}
	}
	t.Fatal("neither bound nor fenced")
}
