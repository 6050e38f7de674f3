package descheduling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// profileOf returns a policy with one profile; strategies are "Name: {args}", at the point where the first is
// active.
func profileOf(t statetest.Fataler, point, evictor string, strategies ...string) *policy.Policy {
	t.Helper()
	var configs, names []string
	for _, s := range strategies {
		name, args, _ := strings.Cut(s, ": ")
		configs = append(configs, fmt.Sprintf("{name: %s, args: %s}", name, args))
		names = append(names, name)
	}
	text := fmt.Sprintf(`{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, profiles: [{name: p,
pluginConfig: [{name: DefaultEvictor, args: {%s}}, %s], plugins: {%s: {enabled: [%s]}}}]}`,
		evictor, strings.Join(configs, ", "), point, strings.Join(names, ", "))
	p, err := policy.ParseStrict("test", []byte(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := statetest.Node(name, "cpu", "8", "memory", "16Gi", "pods", "20")
	for _, c := range change {
		c(n)
	}
	return n
}

func tainted(effects ...corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i, e := range effects {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: fmt.Sprint("taint", i), Effect: e})
		}
	}
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// pod returns "namespace/name", running on a node for an hour, owned by a ReplicaSet of its namespace.
func pod(key, on string, change ...func(*corev1.Pod)) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	p := statetest.Pod(namespace, name, "cpu", "1", "memory", "1Gi")
	p.UID = types.UID("uid-" + key)
	p.Spec.NodeName = on
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs"}}
	p.Labels = map[string]string{"app": "web"}
	p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Hour)}
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func repelling(term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term.TopologyKey = corev1.LabelHostname
		term.LabelSelector = &metav1.LabelSelector{}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	}
}

func preferring(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
				}},
			}},
		}}
	}
}

// summary prints what a run accepted and why, one pod a line, and what it kept.
func summary(in Input) string {
	accepted, out := Collect(in)
	var b strings.Builder
	for _, c := range accepted {
		fmt.Fprintf(&b, "%s: %s\n", c.Pod.Key(), c.Reason)
	}
	for r, n := range out.Refused {
		fmt.Fprintf(&b, "kept %d: %s\n", n, r.Reason)
	}
	for _, f := range out.Failed {
		fmt.Fprintf(&b, "%s: %v\n", f.Strategy, f.Err)
	}
	return b.String()
}
