package descheduling

import (
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TestBetterThanUpstream shows both answers where they differ.
func TestBetterThanUpstream(t *testing.T) {
	const low = "LowNodeUtilization: {thresholds: {cpu: 20}, targetThresholds: {cpu: 20}}"
	wildcard := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	forced := func(p *corev1.Pod) {
		p.Annotations = map[string]string{AnnotationEvict: ""}
		p.DeletionTimestamp = &metav1.Time{Time: now}
	}
	east := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "east",
		Labels: map[string]string{"side": "right"}}}
	right := corev1.PodAffinityTerm{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"side": "right"}},
	}
	for _, tt := range []struct {
		name, point, strategy string
		objects               []state.APIObject
		upstream, ours        string
	}{
		{
			name: "a terminating pod goes anyway", point: "deschedule", strategy: "RemovePodsViolatingNodeTaints: {}",
			objects:  []state.APIObject{node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"), pod("x/p", "a", forced)},
			upstream: "x/p: taint taint0:NoSchedule of node a is not tolerated\n",
			ours:     "kept 1: terminating\n",
		},
		{
			name: "pods of one name are two", point: "deschedule", strategy: "RemovePodsViolatingInterPodAntiAffinity: {}",
			objects: []state.APIObject{node("a"), node("b"), pod("east/p", "a"),
				pod("west/p", "a", repelling(corev1.PodAffinityTerm{Namespaces: []string{"east"}}))},
			ours: "west/p: repels east/p on node a\n",
		},
		{
			name: "namespaces by their labels", point: "deschedule", strategy: "RemovePodsViolatingInterPodAntiAffinity: {}",
			objects: []state.APIObject{node("a"), node("b"), east, pod("east/p", "a"), pod("west/q", "a", repelling(right))},
			ours:    "west/q: repels east/p on node a\n",
		},
		{
			name: "its own namespace is not meant", point: "deschedule", strategy: "RemovePodsViolatingInterPodAntiAffinity: {}",
			objects:  []state.APIObject{node("a"), node("b"), east, pod("west/p", "a"), pod("west/q", "a", repelling(right))},
			upstream: "west/q: repels west/p on node a\n",
		},
		{
			name: "the better node has no room", point: "deschedule",
			strategy: "RemovePodsViolatingNodeAffinity: {nodeAffinityType: [" + policy.PreferredNodeAffinity + "]}",
			objects: []state.APIObject{node("a"), node("b", labelled("disk", "ssd"),
				func(n *corev1.Node) { n.Spec.Unschedulable = true }),
				pod("x/p", "a", preferring("disk", "ssd"))},
			upstream: "x/p: a node fits that it prefers to node a\n",
		},
		{
			name: "one toleration of everything", point: "balance", strategy: low,
			objects: []state.APIObject{node("a"), node("b", tainted(corev1.TaintEffectNoSchedule,
				corev1.TaintEffectNoExecute)),
				pod("x/p", "a", wildcard), pod("x/q", "a", wildcard)},
			ours: "x/p: node a is over: cpu 25% (20%)\n",
		},
		{
			name: "a preference against a node is none", point: "balance", strategy: low,
			objects: []state.APIObject{node("a"), node("b", tainted(corev1.TaintEffectPreferNoSchedule)), pod("x/p",
				"a"), pod("x/q", "a")},
			ours: "x/p: node a is over: cpu 25% (20%)\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{Cluster: statetest.Snapshot(t, tt.objects...), Policy: profileOf(t, tt.point, "", tt.strategy), Now: now}
			expect(t, in, tt.ours)
			in.Upstream = true
			expect(t, in, tt.upstream)
		})
	}
}

// TestReplicasElsewhereDoNotCount checks that a pod of another namespace that names the owner is not a replica,
// unlike upstream.
func TestReplicasElsewhereDoNotCount(t *testing.T) {
	in := Input{
		Cluster: statetest.Snapshot(t, node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"), pod("x/p", "a"),
			pod("y/p", "b")),
		Policy: profileOf(t, "deschedule", "minReplicas: 2", "RemovePodsViolatingNodeTaints: {}"), Now: now,
	}
	expect(t, in, "kept 1: owner has too few replicas\n")
	in.Upstream = true
	expect(t, in, "x/p: taint taint0:NoSchedule of node a is not tolerated\n")
}

func expect(t *testing.T, in Input, want string) {
	t.Helper()
	if got := summary(in); got != want {
		t.Errorf("upstream's way %t:\n%swant:\n%s", in.Upstream, got, want)
	}
}

// TestMissingUsage checks that a strategy without usage data does nothing, and reports it.
func TestMissingUsage(t *testing.T) {
	p := profileOf(t, "balance", "", "LowNodeUtilization: {thresholds: {cpu: 20}, targetThresholds: {cpu: 20}}")
	p.Profiles[0].Balance[0].Args.(*policy.LowUtilization).Source = policy.KubernetesMetrics
	cluster := statetest.Snapshot(t, node("a"), node("b"), pod("x/p", "a"), pod("x/q", "a"))
	in := Input{Cluster: cluster, Policy: p, Now: now}
	const want = "LowNodeUtilization: error getting node usage: unable to find node \"a\" in the collected metrics\n"
	if got := summary(in); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	in.Usage.Nodes = map[string]map[corev1.ResourceName]int64{
		"a": {corev1.ResourceCPU: 6000, corev1.ResourceMemory: 1}, "b": {corev1.ResourceCPU: 100, corev1.ResourceMemory: 1},
	}
	in.Usage.Pods = map[string]map[corev1.ResourceName]int64{"x/q": {corev1.ResourceCPU: 5000, corev1.ResourceMemory: 1}}
	if got, want := summary(in), "x/q: node a is over: cpu 75% (20%)\n"; got != want {
		t.Errorf("a pod that nobody measured was taken, or too many were:\n%swant:\n%s", got, want)
	}
}
