package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const zone = "topology.kubernetes.io/zone"

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name, "tier": "x"}}
}

func spreadOver(key string, hard corev1.UnsatisfiableConstraintAction, skew int32) corev1.PodSpec {
	return corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
		TopologyKey: key, WhenUnsatisfiable: hard, MaxSkew: skew, LabelSelector: app("web"),
	}}}
}

func apartBy(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: terms,
	}}}
}

func groupOf(namespace, name string, spec corev1.PodSpec) string {
	return NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}, Spec: spec,
	}).Group()
}

func TestPodsWithoutWideRulesHaveNoGroup(t *testing.T) {
	host := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: app("web")}
	for name, spec := range map[string]corev1.PodSpec{
		"plain":              {},
		"soft spread":        spreadOver(zone, corev1.ScheduleAnyway, 1),
		"spread over nodes":  spreadOver(corev1.LabelHostname, corev1.DoNotSchedule, 1),
		"one pod for a node": apartBy(host),
		"affinity": {Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: zone, LabelSelector: app("web")},
			},
		}}},
	} {
		if g := groupOf("shop", "web", spec); g != "" {
			t.Errorf("%s: group %q, want none", name, g)
		}
	}
}

func TestPodsWithTheSameWideRuleAreOneGroup(t *testing.T) {
	spread := spreadOver(zone, corev1.DoNotSchedule, 1)
	want := groupOf("shop", "web-1", spread)
	with := func(change func(*corev1.PodSpec)) string {
		spec := spread.DeepCopy()
		change(spec)
		return groupOf("shop", "web-1", *spec)
	}
	overNodes := spreadOver(corev1.LabelHostname, corev1.DoNotSchedule, 1).TopologySpreadConstraints
	for name, got := range map[string]string{
		"another pod":  groupOf("shop", "web-2", spread),
		"another skew": groupOf("shop", "db-1", spreadOver(zone, corev1.DoNotSchedule, 3)),
		"more, over nodes": with(func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = append(overNodes, s.TopologySpreadConstraints...)
		}),
		"bound to a node":   with(func(s *corev1.PodSpec) { s.NodeName = "n" }),
		"tolerates by now":  with(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "t"}} }),
		"selects nodes too": with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }),
	} {
		if got != want || got == "" {
			t.Errorf("%s: group %q, want %q", name, got, want)
		}
	}
	both := spread.DeepCopy()
	both.Affinity = apartBy(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("zzz")}).Affinity
	if a, b := groupOf("shop", "x", *both), groupOf("shop", "y", *both); a != b || a == "" {
		t.Errorf("two rules: groups %q and %q", a, b)
	}
	apart := func(change func(*corev1.PodAffinityTerm)) string {
		term := corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web")}
		change(&term)
		return groupOf("shop", "web-1", apartBy(term))
	}
	others := map[string]string{
		"namespace":          groupOf("bank", "web-1", spread),
		"topology":           groupOf("shop", "web-1", spreadOver("rack", corev1.DoNotSchedule, 1)),
		"kind":               apart(func(*corev1.PodAffinityTerm) {}),
		"selector":           apart(func(t *corev1.PodAffinityTerm) { t.LabelSelector = app("db") }),
		"nil selector":       apart(func(t *corev1.PodAffinityTerm) { t.LabelSelector = nil }),
		"empty selector":     apart(func(t *corev1.PodAffinityTerm) { t.LabelSelector = &metav1.LabelSelector{} }),
		"list of namespaces": apart(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"bank"} }),
		"namespace selector": apart(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = app("web") }),
	}
	seen := map[string]string{want: "the first"}
	for name, g := range others {
		if same, twice := seen[g]; twice || g == "" {
			t.Errorf("another %s: group %q, that of %s", name, g, same)
		}
		seen[g] = name
	}
}
