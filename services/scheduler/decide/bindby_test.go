package decide_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// bind plays a plugin, or, if that skips the pod, a binder; a binder takes the place back if the plugin fails. A
// plugin binds only reservations that are delegated to it.
func (x *actor) bind(p step.PluginRequest, a step.PluginResult) step.PluginResult {
	x.t.Helper()
	doc, e, held := x.hold(p.Pod.UID)
	pod, exists := x.pods[p.Pod.UID]
	switch {
	case exists && (!held || doc.NodeName != p.Node || e.State != ledger.Committed || !e.Delegated):
		x.t.Fatalf("pod %s is to be bound to %s, and the ledger has %s of %s there", p.Pod.UID, p.Node, e.State, e.PodUID)
	case a.Err != nil:
		delete(x.reserved, cycleOf(p))
		x.passed[placeOf(p)] = false
		x.fence(doc, e)
	case exists:
		pod.Spec.NodeName = p.Node
		x.publish(pod)
		x.boundAt(string(pod.UID), uint64(len(x.facts)))
		x.audit()
	}
	a.Refusal = nil
	return a
}

// fence takes a reservation back like a binder.
func (x *actor) fence(d ledger.NodeDoc, e ledger.Entry) {
	x.t.Helper()
	replace := func(next ledger.NodeDoc, err error) {
		x.t.Helper()
		txn, cannot := txns.Replace(next)
		if err = errors.Join(err, cannot); err != nil {
			x.t.Fatal(err)
		}
		if !x.commit(txn).Succeeded {
			x.t.Fatal("lost")
		}
	}
	if pod, exists := x.pods[e.PodUID]; exists {
		replace(txns.MarkFencing(d, e.PodUID, e.Token, ledger.FenceByPod))
		x.publish(pod)
		marked, _, _ := x.hold(e.PodUID)
		replace(txns.ReleaseFenced(marked, e.PodUID, e.Token, x.rv))
	}
}

// A pod that plugins bind is reported when they have answered, with the plugin that bound it. The ledger leaves the
// place to them from the moment it is Committed. PostBind follows, or nothing if they have failed.
func TestPluginsBind(t *testing.T) {
	failed := errors.New("running Bind plugin \"Actor\": broken")
	for _, test := range []struct {
		answer step.PluginResult
		want   events.Decision
	}{
		{step.PluginResult{By: "Actor"}, events.Decision{Kind: events.DecisionPlaced, Plugins: []string{"Actor"}}},
		{step.PluginResult{}, events.Decision{Kind: events.DecisionPlaced}},
		{step.PluginResult{Err: failed}, events.Decision{Kind: events.DecisionFailed, Message: failed.Error()}},
	} {
		for _, later := range []bool{false, true} {
			x := newActingWorld(t, 1, 1)
			x.answer = func(p step.PluginRequest) step.PluginResult {
				if p.Act != step.ActBind {
					return step.PluginResult{Later: later, Binds: true}
				}
				if len(x.shards[0].decisions) > 0 {
					t.Errorf("told %v before the bind", x.shards[0].decisions)
				}
				return test.answer
			}
			x.addNode("a", 10)
			x.addPod("p")
			x.settle()
			x.offer()
			x.settle()
			d := x.only()
			got := events.Decision{Kind: d.Kind, Message: d.Message, Plugins: d.Plugins}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("later %v (-want +got):\n%s", later, diff)
			}
			if d.NodeName != "a" {
				t.Errorf("on %q, want the node", d.NodeName)
			}
			placed := d.Kind == events.DecisionPlaced
			if x.actCounts[step.ActUndo] > 0 || x.actCounts[step.ActBound] > 0 != placed {
				t.Errorf("later %v: acts %v after %s", later, x.actCounts, d.Kind)
			}
		}
	}
}

// askedToBind makes the only shard ask plugin Actor to bind pod p, which has not answered yet.
func (x *actor) askedToBind() (*shard, step.PluginRequest) {
	x.t.Helper()
	x.answer = func(step.PluginRequest) step.PluginResult { return step.PluginResult{Binds: true, By: "Actor"} }
	x.addNode("a", 10)
	x.addPod("p")
	x.settle()
	x.offer()
	s := x.shards[0]
	for len(s.performs) == 0 || s.performs[0].Act != step.ActBind {
		x.deliver()
	}
	p := s.performs[0]
	s.performs = nil
	return s, p
}

// A pod that the facts show as bound before its plugin has returned is reported as bound afterwards.
func TestPluginReturnsLate(t *testing.T) {
	x := newActingWorld(t, 1, 1)
	s, p := x.askedToBind()
	answer := x.act(p)
	x.settle()
	x.heartbeat()
	if len(s.decisions)+x.actCounts[step.ActBound] > 0 {
		t.Fatalf("%v told, acts %v, while the plugin is at it", s.decisions, x.actCounts)
	}
	x.step(s, step.Input{Performed: []step.PluginResult{answer}})
	x.settle()
	if d := x.only(); d.Kind != events.DecisionPlaced || x.actCounts[step.ActBound] != 1 {
		t.Errorf("%s, acts %v, want PostBind once", d.Kind, x.actCounts)
	}
}

// If a place is taken back while its plugin binds, the bind ends, and the plugin's later answer is not reported.
func TestPlaceIsTakenBackDuringTheBind(t *testing.T) {
	x := newActingWorld(t, 1, 1)
	s, p := x.askedToBind()
	x.fence(mustHold(x, "pod-p"))
	x.settle()
	if x.actCounts[step.ActUndo] != 1 {
		t.Errorf("undone %d times, want once", x.actCounts[step.ActUndo])
	}
	x.step(s, step.Input{Performed: []step.PluginResult{{ID: p.ID, Act: p.Act, By: "Actor"}}})
	x.settle()
	if len(s.decisions) > 0 || x.actCounts[step.ActBound] > 0 {
		t.Errorf("%+v, acts %v: want nothing told", s.decisions, x.actCounts)
	}
}

func mustHold(x *actor, uid string) (ledger.NodeDoc, ledger.Entry) {
	x.t.Helper()
	d, e, ok := x.hold(uid)
	if !ok {
		x.t.Fatalf("pod %s has no place", uid)
	}
	return d, e
}
