package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
)

// lastDecision returns the last decision about a pod.
func (st *scenario) lastDecision(uid string) events.Decision {
	st.t.Helper()
	for _, d := range slices.Backward(st.s.decisions) {
		if d.Pod.UID == uid {
			return d
		}
	}
	st.t.Fatalf("no decision about %s", uid)
	return events.Decision{}
}

// The record of a pod that fits nowhere names the nodes that would take it if no places were kept there, and no others.
func TestRecordNamesKeptPlaces(t *testing.T) {
	st := newScenario(t, 1, 2, 1)
	st.addNode("n2", 1)
	st.mustKeep(st.running("v", "n0", ownedBy("web")), "n1")
	st.running("full", "n2")
	st.runUntilQuiet()
	small := st.pod("small", ownedBy("db"))
	large := st.pod("large", ownedBy("db"), asking("64"))
	elsewhere := st.pod("elsewhere", ownedBy("db"), onNode("n2"))
	st.runUntilQuiet()
	for uid, want := range map[string][]string{small: {"n1"}, large: nil, elsewhere: nil} {
		if d := st.lastDecision(uid); d.Kind != events.DecisionUnplaceable || !slices.Equal(d.Withheld, want) {
			t.Errorf("%s is %s (%s), withheld %v, want %v", uid, d.Kind, d.Message, d.Withheld, want)
		}
	}
}

// A list that is too long is left out: marks on only some of the nodes would be of no use.
func TestRecordNamesAllNodesOrNone(t *testing.T) {
	for _, n := range []int{events.MaxWithheld, events.MaxWithheld + 1} {
		st := newScenario(t, 1, n, 1)
		st.addNode("from", int64(n))
		for i := range n {
			st.mustKeep(st.running(fmt.Sprint("v", i), "from", ownedBy("web")), fmt.Sprint("n", i))
		}
		st.runUntilQuiet()
		p := st.pod("p", ownedBy("db"))
		st.runUntilQuiet()
		want := n
		if n > events.MaxWithheld {
			want = 0
		}
		if d := st.lastDecision(p); d.Kind != events.DecisionUnplaceable || len(d.Withheld) != want {
			t.Errorf("%d nodes: %s, %d are named, want %d", n, d.Kind, len(d.Withheld), want)
		}
	}
}

// The binder's marks end no doubt about a node, wake no pod, and keep none away.
func TestMarksChangeNoDecision(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "OutOfcpu")
	doubted := func(when string, want int) {
		t.Helper()
		if n := st.s.core.AvoidedCounts()["doubt"]; n != want {
			t.Fatalf("%s: %d nodes doubted, want %d", when, n, want)
		}
	}
	doubted("rejected", 1)
	for _, marks := range []nodemark.Marks{{Withheld: true}, {Withheld: true, Kept: true}, {}} {
		st.publishMarks(node, marks)
		doubted(marks.String(), 1)
	}
	other := otherOf(node)
	st.publishMarks(other, nodemark.Marks{Withheld: true})
	if got, message := st.places("q", ownedBy("db")); got != other {
		t.Errorf("the pod goes to %q (%s), want %s, whatever its marks", got, message, other)
	}
}

// publishMarks shows the shard a node with marks, as the queue publishes it.
func (st *scenario) publishMarks(node string, marks nodemark.Marks) {
	st.rv++
	n := st.nodeObjects[node]
	nodemark.Set(n, marks)
	n.ResourceVersion = fmt.Sprint(st.rv)
	shown := n.DeepCopy()
	nodemark.Strip(shown)
	if slices.ContainsFunc(shown.Spec.Taints, func(t corev1.Taint) bool { return t.Key == nodemark.Taint }) {
		st.t.Fatal("the facts show the taint")
	}
	st.publishNode(shown)
	st.deliverAll()
}

// A pod would not fit on a node that it avoids if its room is held by a nomination.
func TestAvoidedNodeThatANominationHolds(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	other := otherOf(node)
	st.running("full", other, asking("300m"), important(500))
	st.addPod("q", asking("300m"), important(500), nominatedTo(node))
	st.deliverAll()
	r := st.pod("r", ownedBy("web"))
	st.runUntilQuiet()
	d := st.lastDecision(r)
	const want = "0/2 nodes are available: 2 Insufficient cpu."
	if d.Kind != events.DecisionUnplaceable || len(d.Withheld) > 0 || !strings.HasPrefix(d.Message, want) {
		t.Errorf("%s, withheld %v: %q; want it unplaceable: %q", d.Kind, d.Withheld, d.Message, want)
	}
	if !slices.Contains(d.Plugins, names.NodeResourcesFit) {
		t.Errorf("waits for %v", d.Plugins)
	}
	remake(t, st.world, st.s)
}

// otherOf returns the other one of n0 and n1.
func otherOf(node string) string {
	if node == "n0" {
		return "n1"
	}
	return "n0"
}

// The message about a pod that fits on a node that it avoids counts the nodes whose room is held by nominations.
func TestAvoidedNodeBesideOneThatANominationHolds(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	st.addPod("q", asking("300m"), important(500), nominatedTo(otherOf(node)))
	st.deliverAll()
	r := st.pod("r", ownedBy("web"))
	st.runUntilQuiet()
	d := st.lastDecision(r)
	const want = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had just rejected a pod of the same owner."
	if d.Kind != events.DecisionFailed || !slices.Equal(d.Withheld, []string{node}) || d.Message != want {
		t.Errorf("%s, withheld %v: %q; want it tried again: %q", d.Kind, d.Withheld, d.Message, want)
	}
	remake(t, st.world, st.s)
}

// A profile that samples names all nodes that are withheld as well, and so it does for a pod that is nominated to one.
func TestAllAvoidedNodesAreNamed(t *testing.T) {
	for name, options := range map[string][]func(*corev1.Pod){"plain": nil, "nominated": {nominatedTo("n0")}} {
		t.Run(name, func(t *testing.T) {
			st := samplingScenario(t, 1, "n0", "n1")
			for _, pod := range []string{"a", "b"} {
				node, _ := st.places(pod, ownedBy("web"))
				st.reject("pod-"+pod+"0", node, "TopologyAffinityError")
			}
			r := st.pod("r", append(options, ownedBy("web"))...)
			st.runUntilQuiet()
			d := st.lastDecision(r)
			const want = "0/2 nodes are available: 2 node(s) had just rejected a pod of the same owner."
			if d.Kind != events.DecisionFailed || !slices.Equal(d.Withheld, []string{"n0", "n1"}) || d.Message != want {
				t.Errorf("%s, withheld %v: %q; want it tried again: %q", d.Kind, d.Withheld, d.Message, want)
			}
		})
	}
}

// A node that the workload avoids and whose room a nomination holds is left out once.
func TestAvoidedAndHeldByANomination(t *testing.T) {
	st := newScenario(t, 1, 3, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	st.addPod("q", asking("300m"), important(500), nominatedTo(node))
	st.deliverAll()
	r := st.pod("r", ownedBy("web"))
	st.runUntilQuiet()
	if d := st.lastDecision(r); d.NodeName == "" || d.NodeName == node || d.NodesFeasible != 2 || d.NodesTotal != 3 {
		t.Errorf("%s on %q, %d nodes of %d: want one of two, not %s", d.Kind, d.NodeName, d.NodesFeasible, d.NodesTotal, node)
	}
	remake(t, st.world, st.s)
}
