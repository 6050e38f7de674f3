package placement_test

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// few draws small values, so that pods and changes often concern each other.
type few struct{ *rapid.T }

func (f few) of(list ...string) string { return rapid.SampledFrom(list).Draw(f.T, "one") }

func (f few) maybe() bool { return rapid.Bool().Draw(f.T, "maybe") }

func (f few) labels() map[string]string {
	m := map[string]string{}
	for _, k := range []string{"app", "zone"} {
		if f.maybe() {
			m[k] = f.of("a", "b")
		}
	}
	return m
}

func (f few) selector() *metav1.LabelSelector {
	if f.maybe() {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.of("a", "b")}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{f.of("a", "b")},
	}}}
}

func (f few) podTerms() []corev1.PodAffinityTerm {
	var list []corev1.PodAffinityTerm
	for range rapid.IntRange(0, 2).Draw(f.T, "terms") {
		t := corev1.PodAffinityTerm{TopologyKey: f.of("zone", corev1.LabelHostname), LabelSelector: f.selector()}
		switch f.of("", "named", "selected") {
		case "named":
			t.Namespaces = []string{f.of("x", "y")}
		case "selected":
			t.NamespaceSelector = &metav1.LabelSelector{}
		}
		list = append(list, t)
	}
	return list
}

func (f few) nodeTerms() *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for range rapid.IntRange(1, 2).Draw(f.T, "terms") {
		var t corev1.NodeSelectorTerm
		if f.maybe() {
			t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: f.of("app", "zone"), Values: []string{f.of("a", "b")},
				Operator: corev1.NodeSelectorOperator(f.of("In", "NotIn", "Exists", "Broken")),
			})
		}
		if f.maybe() {
			t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{f.of("n1", "n2")},
			})
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, t)
	}
	return s
}

// pod draws a pod with a little of everything, with few different names.
func (f few) pod(uid string) *state.Pod {
	obj := statetest.Pod(f.of("x", "y"), uid, "cpu", f.of("1", "2"))
	obj.Labels = f.labels()
	spec := &obj.Spec
	if f.maybe() {
		spec.NodeName = f.of("n1", "n2")
	}
	if f.maybe() {
		spec.NodeSelector = map[string]string{f.of("app", "zone"): f.of("a", "b")}
	}
	if f.maybe() {
		spec.Tolerations = []corev1.Toleration{{Key: f.of("a", "b"), Operator: corev1.TolerationOpExists}}
	}
	if f.maybe() {
		spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.Protocol(f.of("TCP", "UDP"))}}
	}
	if f.maybe() {
		spec.Affinity = &corev1.Affinity{}
		if f.maybe() {
			spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: f.nodeTerms()}
		}
		if f.maybe() {
			spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: f.podTerms()}
		}
		if f.maybe() {
			spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: f.podTerms(),
			}
		}
	}
	if f.maybe() {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", LabelSelector: f.selector(),
			WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(f.of("DoNotSchedule", "ScheduleAnyway")),
		}}
	}
	return state.NewPod(obj)
}

func (f few) node(name string) *state.Node {
	obj := statetest.Node(name, "cpu", f.of("1", "2"), "pods", "10")
	obj.Labels = f.labels()
	if f.maybe() {
		obj.Labels[corev1.LabelHostname] = name
	}
	if f.maybe() {
		obj.Spec.Taints = []corev1.Taint{{Key: f.of("a", "b"), Effect: corev1.TaintEffectNoSchedule}}
	}
	obj.Spec.Unschedulable = f.maybe()
	if f.maybe() {
		obj.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Gi")
	}
	return state.NewNode(obj)
}

func (f few) change() rule.Change {
	before, after := f.of("gone", "there") == "there", f.of("gone", "there") == "there"
	if f.maybe() {
		var c state.PodChange
		if before {
			c.Before = f.pod("other")
		}
		if after {
			c.After = f.pod("other")
		}
		return rule.PodChange(c)
	}
	name := f.of("n1", "n2")
	var c state.NodeChange
	if before || !after {
		c.Before = f.node(name)
	}
	if after {
		c.After = f.node(name)
	}
	return rule.NodeChange(c)
}

func (r reachOf) holds(c rule.Change) bool {
	reach := r.Nodes
	switch c.Kind {
	case events.KindPod:
		reach = r.Pods
	case events.KindResourceClaim:
		reach = r.Claims
	}
	return reach.All || slices.ContainsFunc(c.Topics(), func(t string) bool { return slices.Contains(reach.Topics, t) })
}

type reachOf struct{ rule.Interest }

// TestInterests checks that a hint that reports true is within reach, and that pods of one class get the same hint.
func TestInterests(t *testing.T) {
	profile, err := placement.NewProfile(placement.DefaultProfile("s"))
	if err != nil {
		t.Fatal(err)
	}
	yes, shared := map[string]int{}, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := few{t}
		c := f.change()
		pods := make([]*state.Pod, 6)
		for i := range pods {
			pods[i] = f.pod("p" + strconv.Itoa(i))
		}
		for _, plugin := range placement.KnownPlugins() {
			hints := map[string]bool{}
			for _, pod := range pods {
				class, wakes := checkInterest(t, profile, plugin, pod, c)
				was, twice := hints[class]
				if twice && was != wakes {
					t.Fatalf("%s: two pods of class %q, hints %t and %t", plugin, class, was, wakes)
				}
				hints[class] = wakes
				count(shared, plugin, twice)
				count(yes, plugin, wakes)
			}
		}
	})
	t.Logf("hints that said yes: %v; pods of a class seen before: %v", yes, shared)
}

func count(in map[string]int, what string, is bool) {
	if is {
		in[what]++
	}
}

// checkInterest evaluates a rule's hint for a change; if it is true, the change must be within reach.
func checkInterest(
	t *rapid.T, profile *placement.Profile, plugin string, pod *state.Pod, c rule.Change,
) (class string, wakes bool) {
	interest := profile.Interest(plugin, pod)
	wakes = profile.Wakes(pod, []string{plugin}, c)
	if wakes && !(reachOf{interest}).holds(c) {
		t.Fatalf("%s wakes a pod of %+v by a change about %q", plugin, interest, c.Topics())
	}
	if wakes && !(profile.Listens(plugin, c) && profile.AnyListens(c)) {
		t.Fatalf("%s wakes by %s, to which it does not listen", plugin, c.Label())
	}
	return interest.Class, wakes
}

// TestLabels checks the labels against upstream's names, as in its metrics.
func TestLabels(t *testing.T) {
	bound := state.NewPod(statetest.Pod("x", "p"))
	bound.NodeName = "n"
	free := state.NewPod(statetest.Pod("x", "q"))
	for want, c := range map[string]rule.Change{
		"NodeAdd":                             {Kind: events.KindNode, Actions: rule.Add},
		"NodeUpdateNodeTaint":                 {Kind: events.KindNode, Actions: rule.UpdateNodeTaint},
		"AssignedPodAdd":                      {Kind: events.KindPod, Actions: rule.Add, NewPod: bound},
		"AssignedPodDelete":                   {Kind: events.KindPod, Actions: rule.Delete, OldPod: bound},
		"AssignedPodUpdatePodScaleDown":       {Kind: events.KindPod, Actions: rule.UpdatePodScaleDown, NewPod: bound},
		"AssignedPodUpdate":                   {Kind: events.KindPod, Actions: rule.UpdateOther, NewPod: bound},
		"UnschedulablePodUpdatePodToleration": {Kind: events.KindPod, Actions: rule.UpdatePodToleration, NewPod: free},
		"NamespaceUpdateNamespaceLabel":       {Kind: events.KindNamespace, Actions: rule.UpdateNamespaceLabel},
	} {
		if got := c.Label(); got != want {
			t.Errorf("label %q, want %q", got, want)
		}
	}
}
