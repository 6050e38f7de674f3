package descheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// cut makes a pod some of whose labels had no room in a fact. Its remaining labels are stage=test and
// strip.LabelsCut.
func cut(p *corev1.Pod) {
	p.Labels = map[string]string{"stage": "test", strip.LabelsCut: ""}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.TooLargeGate}}
	p.Annotations = map[string]string{strip.TooLargeAnnotation: "too large"}
}

// cutNamespace returns a namespace none of whose labels had room in a fact.
func cutNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "uid-namespace", Labels: map[string]string{strip.LabelsCut: ""},
		Annotations: map[string]string{strip.TooLargeAnnotation: "too large"},
	}}
}

// apartFrom gives a pod a required anti-affinity term about the pods of its node.
func apartFrom(term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term.TopologyKey = corev1.LabelHostname
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	}
}

// untiered selects pods without the label tier=x; a pod whose labels were cut may have had it.
var untiered = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
	{Key: "stage", Operator: metav1.LabelSelectorOpExists},
	{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
}}

// TestCutLabelsAreNoEvidence checks that a pod is evicted because of another one only if its term matches whichever
// labels of the other pod, or of its namespace, were cut.
func TestCutLabelsAreNoEvidence(t *testing.T) {
	zone := func(term corev1.PodAffinityTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			apartFrom(term)(p)
			required := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			required[0].TopologyKey = corev1.LabelTopologyZone
		}
	}
	staged := &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "test"}}
	noisy := &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}}
	for _, tt := range []struct {
		name   string
		term   func(*corev1.Pod)
		others []state.APIObject
		want   string
	}{
		{"a label of the other was cut", apartFrom(corev1.PodAffinityTerm{LabelSelector: untiered}),
			[]state.APIObject{pod("web/q", "n0000", cut)}, ""},
		{"also in a domain of many nodes", zone(corev1.PodAffinityTerm{LabelSelector: untiered}),
			[]state.APIObject{pod("web/q", "n0000", cut)}, ""},
		{"the label is there still", apartFrom(corev1.PodAffinityTerm{LabelSelector: staged}),
			[]state.APIObject{pod("web/q", "n0000", cut)}, "web/p: repels web/q on node n0000\n"},
		{"also in a domain of many nodes, there still", zone(corev1.PodAffinityTerm{LabelSelector: staged}),
			[]state.APIObject{pod("web/q", "n0000", cut)}, "web/p: repels web/q on node n0000\n"},
		{"a label of its namespace was cut",
			apartFrom(corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: noisy}),
			[]state.APIObject{cutNamespace("calm"), pod("calm/q", "n0000")}, ""},
		{"its namespace is named",
			apartFrom(corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: noisy, Namespaces: []string{"calm"},
			}),
			[]state.APIObject{cutNamespace("calm"), pod("calm/q", "n0000")}, "web/p: repels calm/q on node n0000\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(inZones(3), append(tt.others, pod("web/p", "n0000", tt.term))...)
			in := Input{
				Cluster: statetest.Snapshot(t, objects...), Policy: profileOf(t, "deschedule", "", apart), Now: now,
			}
			if got := summary(in); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// TestCutLabelsRefuseANode checks that a node is not a place for a pod whose anti-affinity may match an existing
// pod.
func TestCutLabelsRefuseANode(t *testing.T) {
	tiered := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
	for name, tt := range map[string]struct {
		other func(*corev1.Pod)
		want  int
	}{
		"no label was cut": {func(*corev1.Pod) {}, 1},
		"some were cut":    {cut, 0},
	} {
		t.Run(name, func(t *testing.T) {
			wanting := func(p *corev1.Pod) {
				apartFrom(corev1.PodAffinityTerm{LabelSelector: tiered})(p)
				repels := p.Spec.Affinity.PodAntiAffinity
				preferring("disk", "ssd")(p)
				p.Spec.Affinity.PodAntiAffinity = repels
			}
			accepted, _ := Collect(Input{
				Cluster: statetest.Snapshot(t, node("a"), node("b", labelled("disk", "ssd")),
					pod("web/p", "a", wanting), pod("web/q", "b", tt.other)),
				Policy: profileOf(t, "deschedule", "",
					"RemovePodsViolatingNodeAffinity: {nodeAffinityType: [preferredDuringSchedulingIgnoredDuringExecution]}"),
				Now: now,
			})
			if len(accepted) != tt.want {
				t.Errorf("%d pods go, want %d", len(accepted), tt.want)
			}
		})
	}
}

// TestCutPodsDoNotCountForSpread checks that what a constraint moves pods for does not depend on cut labels: pods
// with cut labels are not counted.
func TestCutPodsDoNotCountForSpread(t *testing.T) {
	spread := func(p *corev1.Pod) {
		p.Labels = map[string]string{"stage": "test"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: untiered,
		}}
	}
	for name, tt := range map[string]struct {
		others func(*corev1.Pod)
		want   int
	}{
		"no label was cut": {spread, 2},
		"some were cut":    {cut, 0},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(inZones(2), pod("web/p", "n0000", spread))
			for _, other := range []string{"web/q", "web/r", "web/s"} {
				objects = append(objects, pod(other, "n0000", tt.others))
			}
			accepted, _ := Collect(Input{
				Cluster: statetest.Snapshot(t, objects...), Policy: profileOf(t, "balance", "", spreadOut), Now: now,
			})
			if len(accepted) != tt.want {
				t.Errorf("%d pods go, want %d", len(accepted), tt.want)
			}
		})
	}
}
