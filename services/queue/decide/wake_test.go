package decide

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// parked returns a harness with pod a parked by a plugin, and a bound pod "other" on a cordoned node.
func parked(t *testing.T, plugin string, edit func(*corev1.Pod)) *harness {
	return parkedIn(newHarness(t), plugin, edit)
}

// parkedIn is parked, in a harness where nothing has happened.
func parkedIn(h *harness, plugin string, edit func(*corev1.Pod)) *harness {
	h.t.Helper()
	h.node("n", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	h.add("other", 0)
	h.bind("other")
	h.lead()
	h.put("a", func(p *corev1.Pod) {
		if edit != nil {
			edit(p)
		}
	})
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins(plugin))
	h.want("a", waiting.PoolParked)
	h.sleep(20 * time.Second)
	h.want("a", waiting.PoolParked)
	return h
}

func label(n *corev1.Node) { n.Labels["k"] = "v" }

func selecting(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "v"} }

func web(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

func nearWeb(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}},
	}}
}

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// wakeCase is an event, and whether it wakes a pod that a plugin rejected.
type wakeCase struct {
	name   string
	plugin string
	pod    func(*corev1.Pod)
	event  func(h *harness)
	wakes  bool
}

func TestParkedPodsWakeByNodes(t *testing.T) {
	checkWakes(t, []wakeCase{
		{"a node that is large enough helps", "NodeResourcesFit", nil, func(h *harness) { h.node("m", label) }, true},
		{"a node that is too small does not", "NodeResourcesFit", nil, func(h *harness) {
			h.node("m", func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("100m") })
		}, false},
		{"a node with the label helps", "NodeAffinity", selecting, func(h *harness) { h.node("n", label) }, true},
		{"a node with another does not", "NodeAffinity", selecting, func(h *harness) {
			h.node("n", func(n *corev1.Node) { n.Labels["k"] = "w" })
		}, false},
		{"labels do not help fit", "NodeResourcesFit", nil, func(h *harness) { h.node("n", label) }, false},
		{"uncordon helps", "NodeUnschedulable", nil, func(h *harness) {
			h.node("n", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		}, true},
		{"a heartbeat helps nobody", "NodeResourcesFit", nil, func(h *harness) {
			h.node("n", func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			})
		}, false},
		{"an unknown plugin wakes on anything", "Foreign", nil, func(h *harness) { h.node("n", label) }, true},
	})
}

func TestParkedPodsWakeByPods(t *testing.T) {
	checkWakes(t, []wakeCase{
		{"a deleted pod leaves room", "NodeResourcesFit", nil, func(h *harness) { h.remove("other") }, true},
		{"a finished pod leaves room", "NodeResourcesFit", nil, func(h *harness) {
			h.put("other", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		}, true},
		{"a pod that waits leaves none", "NodeResourcesFit", nil, func(h *harness) {
			h.add("c", 0)
			h.remove("c")
		}, false},
		{"a nomination that ends leaves room", "NodeResourcesFit", nil, func(h *harness) {
			h.put("c", nominatedTo("n"))
			h.put("c", nominatedTo(""))
		}, true},
		{"so does one that moves on", "NodeResourcesFit", nil, func(h *harness) {
			h.put("c", nominatedTo("n"))
			h.put("c", nominatedTo("m"))
		}, true},
		{"so does a bind elsewhere", "NodeResourcesFit", nil, func(h *harness) {
			h.put("c", nominatedTo("m"))
			h.bind("c")
		}, true},
		{"a bind to the nominated node leaves none", "NodeResourcesFit", nil, func(h *harness) {
			h.put("c", nominatedTo("n"))
			h.bind("c")
		}, false},
		{"a nomination that begins leaves none", "NodeResourcesFit", nil, func(h *harness) {
			h.put("c", func(*corev1.Pod) {})
			h.put("c", nominatedTo("n"))
		}, false},
		{"a deleted pod does not untaint", "TaintToleration", nil, func(h *harness) { h.remove("other") }, false},
		{"its own toleration", "TaintToleration", nil, func(h *harness) { h.put("a", tolerant) }, true},
		{"another pod's toleration", "TaintToleration", nil, func(h *harness) { h.put("other", tolerant) }, false},
		{"its own condition is no news", "Foreign", nil, func(h *harness) {
			h.put("a", func(p *corev1.Pod) { p.Status.Message = "no" })
		}, false},
		{"a bound pod attracts", "InterPodAffinity", nearWeb, func(h *harness) {
			h.put("c", web)
			h.bind("c")
		}, true},
		{"a bound pod of another sort does not", "InterPodAffinity", nearWeb, func(h *harness) {
			h.add("c", 0)
			h.bind("c")
		}, false},
	})
}

// rackHints are the hints of a plugin Racks, which listens to labels of nodes and wants a rack for pod a.
type rackHints struct{}

func (rackHints) Events(plugin string) ([]rule.Event, bool) {
	return []rule.Event{{Kind: events.KindNode, Actions: rule.UpdateNodeLabel}}, plugin == "Racks"
}

func (rackHints) Helps(_ string, pod *state.Pod, c rule.Change) bool {
	return c.NewNode.Object.Labels["rack"] == pod.Name
}

func TestParkedPodsWakeByHintsOfCustomPlugins(t *testing.T) {
	rack := func(name string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels["rack"] = name } }
	for _, test := range []wakeCase{
		{"a rack helps", "Racks", nil, func(h *harness) { h.node("n", rack("a")) }, true},
		{"a rack for others does not", "Racks", nil, func(h *harness) { h.node("n", rack("b")) }, false},
		{"nor what it does not listen to", "Racks", nil, func(h *harness) { h.node("m", rack("a")) }, false},
		{"a plugin without hints is helped by everything", "Others", nil, func(h *harness) { h.node("m", rack("b")) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, cfg := newHarness(t), testConfig("queue-a")
			cfg.Profiles = map[string]*placement.Profile{ourScheduler: testProfile.Hinted(rackHints{})}
			h.core = New(cfg)
			test.wantsWake(parkedIn(h, test.plugin, test.pod))
		})
	}
}

func TestParkedPodsWakeByReservations(t *testing.T) {
	checkWakes(t, []wakeCase{
		{"a freed reservation leaves room", "NodeResourcesFit", nil, func(h *harness) {
			h.add("c", 0)
			h.hold(Hold{PodUID: "c", Live: true})
			h.hold(Hold{PodUID: "c", HW: h.progress})
		}, true},
		{"a reservation of a deleted pod leaves room", "NodeResourcesFit", nil, func(h *harness) {
			h.add("c", 0)
			h.hold(Hold{PodUID: "c", Live: true})
			h.remove("c")
			h.want("a", waiting.PoolParked)
			h.hold(Hold{PodUID: "c", HW: h.progress})
		}, true},
		{"so does one that nobody knows", "NodePorts", nil, func(h *harness) {
			h.hold(Hold{PodUID: "c", Live: true})
			h.hold(Hold{PodUID: "c", HW: h.progress})
		}, true},
		{"a handed-over reservation leaves none", "NodeResourcesFit", nil, func(h *harness) {
			h.add("c", 0)
			h.hold(Hold{PodUID: "c", Live: true})
			h.bind("c")
			h.hold(Hold{PodUID: "c", HW: h.progress, Bound: true})
		}, false},
	})
}

func checkWakes(t *testing.T, tests []wakeCase) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.wantsWake(parked(t, test.plugin, test.pod))
		})
	}
}

// wantsWake applies the event, and checks whether the parked pod is offered.
func (c wakeCase) wantsWake(h *harness) {
	h.t.Helper()
	c.event(h)
	h.ask("s1", 9)
	want := waiting.PoolParked
	if c.wakes {
		want = waiting.PoolOffered
	}
	h.want("a", want)
}

// disruptions changes how many disruptions a budget allows; nil means that there is no budget.
func (h *harness) disruptions(before, after *int32) {
	h.t.Helper()
	object := func(allowed *int32) *state.Object {
		if allowed == nil {
			return nil
		}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}
		b.Status.DisruptionsAllowed = *allowed
		return &state.Object{Kind: events.KindDisruptionBudget, UID: "b", Namespace: "ns", Name: "b", API: b}
	}
	h.facts(state.Changes{Others: []state.ObjectChange{{
		Kind: events.KindDisruptionBudget, Before: object(before), After: object(after),
	}}})
}

// A pod for which others could be evicted if budgets did not protect them waits for the budgets.
func TestParkedPodsWakeByBudgets(t *testing.T) {
	none, one := ptr.To[int32](0), ptr.To[int32](1)
	more := func(h *harness) { h.disruptions(none, one) }
	checkWakes(t, []wakeCase{
		{"a budget with more room helps", "DefaultPreemption", nil, more, true},
		{"a budget that is gone helps", "DefaultPreemption", nil, func(h *harness) { h.disruptions(none, nil) }, true},
		{"a budget with less does not", "DefaultPreemption", nil, func(h *harness) { h.disruptions(one, none) }, false},
		{"one that stays as it is does not", "DefaultPreemption", nil, func(h *harness) { h.disruptions(none, none) }, false},
		{"a new one does not", "DefaultPreemption", nil, func(h *harness) { h.disruptions(nil, one) }, false},
		{"nor does it help who waits for room", "NodeResourcesFit", nil, more, false},
	})
}

// The same holds for plans and their claims.
func TestParkedPodsWakeByPlans(t *testing.T) {
	freed := func(above int32) func(h *harness) {
		return func(h *harness) {
			h.revision++
			h.step(LedgerMoved{Revision: h.revision, Freed: &Freed{Above: above}})
		}
	}
	checkWakes(t, []wakeCase{
		{"a less important pod that may go again helps", "DefaultPreemption", nil, freed(-1), true},
		{"one as important does not", "DefaultPreemption", nil, freed(0), false},
		{"room in a budget may help all", "DefaultPreemption", nil, freed(math.MinInt32), true},
		{"nor does it help who waits for room", "NodeResourcesFit", nil, freed(-1), false},
	})
}
