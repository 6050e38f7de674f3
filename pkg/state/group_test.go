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
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: zone, LabelSelector: app("web")}},
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
	both := spread.DeepCopy()
	both.Affinity = apartBy(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("zzz")}).Affinity
	for name, got := range map[string]string{
		"another pod":       groupOf("shop", "web-2", spread),
		"another skew":      groupOf("shop", "db-1", spreadOver(zone, corev1.DoNotSchedule, 3)),
		"more, over nodes":  groupOf("shop", "web-1", corev1.PodSpec{TopologySpreadConstraints: append(spreadOver(corev1.LabelHostname, corev1.DoNotSchedule, 1).TopologySpreadConstraints, spread.TopologySpreadConstraints...)}),
		"bound to a node":   groupOf("shop", "web-1", corev1.PodSpec{NodeName: "n", TopologySpreadConstraints: spread.TopologySpreadConstraints}),
		"tolerates by now":  groupOf("shop", "web-1", corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "t"}}, TopologySpreadConstraints: spread.TopologySpreadConstraints}),
		"selects nodes too": groupOf("shop", "web-1", corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}, TopologySpreadConstraints: spread.TopologySpreadConstraints}),
	} {
		if got != want || got == "" {
			t.Errorf("%s: group %q, want %q", name, got, want)
		}
	}
	if a, b := groupOf("shop", "x", *both), groupOf("shop", "y", *both); a != b || a == "" {
		t.Errorf("two rules: groups %q and %q", a, b)
	}
	others := map[string]string{
		"namespace":     groupOf("bank", "web-1", spread),
		"topology":      groupOf("shop", "web-1", spreadOver("rack", corev1.DoNotSchedule, 1)),
		"anti-affinity": groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("web")})),
		"selector":      groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: app("db")})),
		"nil selector":  groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{TopologyKey: zone})),
		"empty selector": groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{
			TopologyKey: zone, LabelSelector: &metav1.LabelSelector{},
		})),
		"namespaces": groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{
			TopologyKey: zone, LabelSelector: app("web"), Namespaces: []string{"bank"},
		})),
		"namespace selector": groupOf("shop", "web-1", apartBy(corev1.PodAffinityTerm{
			TopologyKey: zone, LabelSelector: app("web"), NamespaceSelector: app("web"),
		})),
	}
	seen := map[string]string{want: "the first"}
	for name, g := range others {
		if same, twice := seen[g]; twice || g == "" {
			t.Errorf("another %s: group %q, that of %s", name, g, same)
		}
		seen[g] = name
	}
}
