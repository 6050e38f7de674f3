package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

// preempted makes a pod one that a scheduler has preempted and that has not left yet.
func preempted(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
	})
}

// The name that a pod is nominated to leads nowhere by the decision that the pod fits nowhere, whoever wrote it. As
// upstream, it stays if the pod is not considered for preemption.
func TestNominationThatLeadsNowhere(t *testing.T) {
	never := func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }
	huge := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	}
	withoutPreemption := func(c *placement.ProfileConfig) {
		c.Plugins = slices.DeleteFunc(c.Plugins, func(p placement.PluginConfig) bool {
			return p.Name == names.DefaultPreemption
		})
	}
	for _, test := range []struct {
		name      string
		nominated string
		nodes     int
		profile   func(*placement.ProfileConfig)
		leaving   bool
		pod       []func(*corev1.Pod)
		stale     string
	}{
		{name: "a missing node", nominated: "ghost", nodes: 1, stale: "ghost"},
		{name: "a full node", nominated: "n0", nodes: 1, stale: "n0"},
		{name: "no node at all", nominated: "n0", stale: "n0"},
		{name: "no nomination", nodes: 1},
		{name: "never", nominated: "n0", nodes: 1, pod: []func(*corev1.Pod){never}},
		{name: "never, and the node is missing", nominated: "ghost", nodes: 1, pod: []func(*corev1.Pod){never}},
		{name: "never, and there is no node at all", nominated: "ghost", pod: []func(*corev1.Pod){never}, stale: "ghost"},
		{name: "a victim is leaving", nominated: "n0", nodes: 1, leaving: true},
		{name: "a victim is leaving in vain", nominated: "n0", nodes: 1, leaving: true, pod: []func(*corev1.Pod){huge},
			stale: "n0"},
		{name: "the profile does not preempt", nominated: "n0", nodes: 1, profile: withoutPreemption, stale: "n0"},
		{name: "the profile does not preempt, and a victim is leaving", nominated: "n0", nodes: 1, leaving: true,
			profile: withoutPreemption, stale: "n0"},
		{name: "the profile does not preempt, never", nominated: "n0", nodes: 1, profile: withoutPreemption,
			pod: []func(*corev1.Pod){never}, stale: "n0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
			if test.profile != nil {
				test.profile(&cfg)
			}
			st := &scenario{world: newWorldOf(t, 1, 1, cfg)}
			st.s = st.shards[0]
			priority := int32(100)
			if test.leaving {
				priority = 1
			}
			for range test.nodes {
				st.addNode("n0", 1)
				options := []func(*corev1.Pod){important(priority)}
				if test.leaving {
					options = append(options, preempted)
				}
				st.running("a", "n0", options...)
			}
			st.deliverAll()
			st.pod("p", append(test.pod, important(10), nominatedTo(test.nominated))...)
			st.runUntilQuiet()
			if n := len(st.s.decisions); n != 1 {
				t.Fatalf("%d decisions, want one", n)
			}
			d := st.s.decisions[0]
			if d.Kind != events.DecisionUnplaceable || d.StaleNomination != test.stale {
				t.Errorf("%s, and nomination %q is stale; want %q (%s)", d.Kind, d.StaleNomination, test.stale, d.Message)
			}
		})
	}
}

// A pod that is nominated by its status alone holds room against pods that are no more important: these go elsewhere,
// or wait with upstream's message.
func TestNominationHoldsRoom(t *testing.T) {
	for _, test := range []struct {
		name      string
		nominated func(*corev1.Pod)
		priority  int32
		nodes     []string
		want      string
		message   string
	}{
		{"a less important pod goes elsewhere", nominatedTo("n0"), 1, []string{"n0", "n1"}, "n1", ""},
		{"and waits if there is no other node", nominatedTo("n0"), 1, []string{"n0"}, "",
			"0/1 nodes are available: 1 Insufficient cpu."},
		{"so does a pod that is as important", nominatedTo("n0"), 10, []string{"n0"}, "",
			"0/1 nodes are available: 1 Insufficient cpu."},
		{"a more important pod takes the room", nominatedTo("n0"), 11, []string{"n0"}, "n0", ""},
		{"a missing node holds nothing", nominatedTo("ghost"), 1, []string{"n0"}, "n0", ""},
		{"nor does a pod of another scheduler", func(p *corev1.Pod) {
			p.Status.NominatedNodeName, p.Spec.SchedulerName = "n0", "another"
		}, 1, []string{"n0"}, "n0", ""},
		{"nor does one that is being deleted", func(p *corev1.Pod) {
			p.Status.NominatedNodeName, p.DeletionTimestamp = "n0", &metav1.Time{}
		}, 1, []string{"n0"}, "n0", ""},
		{"a gated one does", func(p *corev1.Pod) {
			p.Status.NominatedNodeName = "n0"
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		}, 1, []string{"n0"}, "", "0/1 nodes are available: 1 Insufficient cpu."},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := newScenario(t, 1, 0, 0)
			for _, node := range test.nodes {
				st.addNode(node, 1)
			}
			st.addPod("q", important(10), test.nominated)
			st.deliverAll()
			st.pod("p", important(test.priority))
			st.runUntilQuiet()
			if len(st.s.decisions) != 1 {
				t.Fatalf("%d decisions, want one", len(st.s.decisions))
			}
			d := st.s.decisions[0]
			if d.NodeName != test.want || !strings.HasPrefix(d.Message, test.message) {
				t.Errorf("%s on %q: %s; want %q", d.Kind, d.NodeName, d.Message, test.want)
			}
			if d.Kind == events.DecisionUnplaceable && !slices.Contains(d.Plugins, names.NodeResourcesFit) {
				t.Errorf("waits for %v", d.Plugins)
			}
		})
	}
}

// A node that is in quarantine, and whose room a nomination holds, is not free when the quarantine ends. The pod waits
// for the rule by which the nomination rejects it, so that the end of the nomination wakes it.
func TestNominationOnAvoidedNode(t *testing.T) {
	st := newScenario(t, 1, 4, 2)
	st.distrust("n0")
	st.addPod("q", important(10), asking("150m"), nominatedTo("n0"))
	st.deliverAll()
	onN0 := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n0"} }
	st.pod("p", important(1), asking("150m"), onN0)
	st.runUntilQuiet()
	d := st.s.decisions[len(st.s.decisions)-1]
	if d.Kind != events.DecisionUnplaceable || !slices.Contains(d.Plugins, names.NodeResourcesFit) {
		t.Errorf("%s, and the pod waits for %v: %s", d.Kind, d.Plugins, d.Message)
	}
}

// The nominated pod counts once: as nominated until it is reserved, and from then on where it is reserved. It may go
// elsewhere.
func TestNominatedPodCountsOnce(t *testing.T) {
	st := newScenario(t, 1, 2, 2)
	q := st.pod("q", important(10), nominatedTo("n0"))
	st.runUntilQuiet()
	if doc, _, ok := st.hold(q); !ok || doc.NodeName != "n0" {
		t.Fatalf("the nominated pod is on %q, want n0", doc.NodeName)
	}
	st.pod("p", important(1))
	st.pod("r", important(1))
	st.pod("s", important(1))
	st.runUntilQuiet()
	on := map[string]int{}
	for _, node := range st.reservations() {
		on[node]++
	}
	if on["n0"] != 2 || on["n1"] != 2 {
		t.Errorf("%v, want both nodes full", on)
	}
}

// Two pods are nominated to a node with room for one of them: neither may take the other's room. The first that is
// tried loses its nomination, and the other one gets the node. So it does with kube-scheduler.
func TestNominationsThatContradictEachOther(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	st.addPod("q", important(10), nominatedTo("n0"))
	p, q := st.pod("p", important(10), nominatedTo("n0")), "pod-q"
	st.runUntilQuiet()
	if d := st.s.decisions[0]; d.Kind != events.DecisionUnplaceable || d.StaleNomination != "n0" {
		t.Fatalf("%s, stale is %q; want that no pod takes the other's room", d.Kind, d.StaleNomination)
	}
	st.pods[p].Status.NominatedNodeName = ""
	st.publish(st.pods[p])
	st.deliverAll()
	st.offerAgain(q)
	st.runUntilQuiet()
	if doc, _, ok := st.hold(q); !ok || doc.NodeName != "n0" {
		t.Errorf("the other pod has no place")
	}
}

// No pod is evicted for a pod on a node where room is held for one that is as important.
func TestNoVictimsBesideNominatedPods(t *testing.T) {
	st := newScenario(t, 1, 2, 2)
	st.running("a", "n0", important(1))
	st.running("b", "n1", important(5))
	st.running("c", "n1", important(5))
	st.addPod("q", important(100), nominatedTo("n0"))
	st.deliverAll()
	p := st.pod("p", important(100))
	st.runUntilQuiet()
	if doc, e, ok := st.hold(p); !ok || e.State != ledger.Held || doc.NodeName != "n1" {
		t.Errorf("%s on %q, want a place held on n1, where no pod is nominated", e.State, doc.NodeName)
	}
}

// A pod that is nominated to a node, and waits there for a pod that a scheduler has preempted, preempts no other, also
// if room of that node is held for a second pod. So it is with kube-scheduler.
func TestPodThatWaitsForPreemptedPodsPreemptsNoOther(t *testing.T) {
	st := newScenario(t, 1, 2, 1)
	st.running("a", "n0", important(1), preempted)
	st.running("b", "n1", important(1))
	st.addPod("q", important(10), nominatedTo("n0"))
	st.deliverAll()
	p := st.pod("p", important(10), nominatedTo("n0"))
	st.runUntilQuiet()
	if _, _, held := st.hold(p); held {
		t.Error("a place is held for it")
	}
	d := st.s.decisions[len(st.s.decisions)-1]
	if want := "not eligible due to a terminating pod on the nominated node."; !strings.Contains(d.Message, want) {
		t.Errorf("%s: %s, want %q", d.Kind, d.Message, want)
	}
}

// A plan is given up when its pod fits elsewhere without evictions, but not for room that is held by a nomination.
func TestPlanIsNotGivenUpForNominatedRoom(t *testing.T) {
	for _, test := range []struct {
		name string
		to   string
		held bool
	}{{"the other node is free", "ghost", false}, {"a pod is nominated to the other node", "free", true}} {
		t.Run(test.name, func(t *testing.T) {
			st, p, _ := held(t, 1)
			st.addPod("q", important(10), nominatedTo(test.to))
			st.addNode("free", 1)
			st.deliverAll()
			st.wait(3 * time.Second)
			st.runUntilQuiet()
			if _, e, ok := st.hold(p); (ok && e.State == ledger.Held) != test.held {
				t.Errorf("%+v, want the plan kept: %t", e, test.held)
			}
		})
	}
}

// nominationsWorld plays pods of three priorities, half of which are nominated by others, on nodes that do not have
// room for all of them.
func nominationsWorld(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed, 2)
	for i := range 6 {
		w.addNode(fmt.Sprintf("n%d", i), 3)
	}
	for i := range 40 {
		w.addPod(fmt.Sprintf("p%d", i), important(int32(w.rng.IntN(3))), func(p *corev1.Pod) {
			if w.rng.IntN(2) == 0 {
				p.Status.NominatedNodeName = fmt.Sprintf("n%d", w.rng.IntN(7))
			}
		})
		if w.rng.IntN(4) == 0 {
			w.offer()
		}
		for range w.rng.IntN(20) {
			w.deliver()
		}
	}
	w.offer()
	w.settle()
	return w
}
