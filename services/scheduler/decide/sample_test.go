package decide_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// samplingScenario returns a scenario in which the first node that passes is enough: the profile samples, and has no
// scores by which nodes would differ. Each node has room for some pods.
func samplingScenario(t *testing.T, room int64, nodes ...string) *scenario {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.PercentageOfNodesToScore = 1
	for i := range cfg.Plugins {
		cfg.Plugins[i].Points = placement.Filtering | placement.Narrowing
	}
	st := &scenario{world: newWorldOf(t, 1, 1, cfg)}
	st.s, st.remadeWith = st.shards[0], &cfg
	for _, node := range nodes {
		st.addNode(node, room)
	}
	st.deliverAll()
	return st
}

// A sample of nodes whose room is held by nominations is not all that there is.
func TestSampleOfNodesThatNominationsHold(t *testing.T) {
	for _, test := range []struct {
		name    string
		nodes   []string
		want    string
		message string
	}{
		{"a node outside the sample is free", []string{"n0", "n1", "n2"}, "n2", ""},
		{"no node is free", []string{"n0", "n1"}, "", "0/2 nodes are available: 2 Insufficient cpu."},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := samplingScenario(t, 1, test.nodes...)
			st.addPod("q0", important(10), nominatedTo("n0"))
			st.addPod("q1", important(10), nominatedTo("n1"))
			st.deliverAll()
			p := st.pod("p", important(10))
			st.runUntilQuiet()
			d := st.lastDecision(p)
			if d.NodeName != test.want || !strings.HasPrefix(d.Message, test.message) {
				t.Errorf("%s on %q: %q, want it on %q: %q", d.Kind, d.NodeName, d.Message, test.want, test.message)
			}
			remake(t, st.world, st.s)
		})
	}
}

// A sample of nodes that the workload avoids is not all that there is.
func TestSampleOfNodesThatTheWorkloadAvoids(t *testing.T) {
	st := samplingScenario(t, 2, "n0", "n1", "n2")
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	for _, name := range []string{"r", "s", "t", "u"} { // as many as the other nodes have room for
		if got, message := st.places(name, ownedBy("web")); got == node || got == "" {
			t.Errorf("replacement %s goes to %q (%s), its predecessor was rejected by %s", name, got, message, node)
		}
	}
	remake(t, st.world, st.s)
}

// A pod that is nominated to a node that its workload avoids goes elsewhere.
func TestNominatedToANodeThatTheWorkloadAvoids(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	if got, message := st.places("r", ownedBy("web"), nominatedTo(node)); got == node || got == "" {
		t.Errorf("the replacement goes to %q (%s), its predecessor was rejected by %s", got, message, node)
	}
	remake(t, st.world, st.s)
}

// A sample of nodes that pass only because of a place that is held is not all that there is.
func TestSampleOfNodesThatPassOnlyWithHolds(t *testing.T) {
	st := samplingScenario(t, 1)
	st.addNodeIn("n0", "a", 10)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly, important(500))
	st.running("victim", "n1", important(1))
	st.deliverAll()
	first := st.pod("first", evenly, important(10))
	st.runUntilQuiet()
	st.heldAt(first, "n1")
	st.addNodeIn("n2", "b", 1)
	st.deliverAll()
	second := st.pod("second", evenly)
	st.runUntilQuiet()
	if d, e, _ := st.hold(second); e.State != ledger.Committed || d.NodeName != "n2" {
		t.Errorf("%+v on %q, want it placed on n2", e, d.NodeName)
	}
	if d := st.lastDecision(second); d.Kind != events.DecisionPlaced {
		t.Errorf("%s: %s", d.Kind, d.Message)
	}
	remake(t, st.world, st.s)
}
