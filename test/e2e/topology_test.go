//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Rules about other pods hold, hard and soft, if one shard decides alone.
func TestTopologyWithOneShard(t *testing.T) { topology(t, 1) }

// They hold as well if several shards place pods at the same time.
func TestTopologyWithSeveralShards(t *testing.T) { topology(t, 3) }

func topology(t *testing.T, shards int) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	// Before Berth starts: a shard would place the pods on the nodes that it already knows to be ready.
	s.labNodes(spreadNodes, 6)
	s.up(harness.UpConfig{Shards: shards, Binders: 1})
	for i, test := range []struct {
		name string
		run  func(*stack, string)
	}{
		{"a Deployment without constraints spreads over zones and nodes", func(s *stack, ns string) {
			// Soft constraints do not count pods that another shard places at the same moment.
			defaultSpread(s, ns, shards-1)
		}},
		{"hard spread by zone", hardSpread},
		{"required affinity follows, anti-affinity keeps apart", affinity},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			test.run(&inner, inner.namespace(fmt.Sprintf("topology-%d", i)))
			inner.audit()
		}) {
			return
		}
	}
}

const (
	app = "app"
	// spreadNodes is the lab of the nodes that defaultSpread uses.
	spreadNodes = "spread"
)

func ofApp(value string) podOption {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[app] = value
	}
}

func matching(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{app: value}}
}

func spreading(key string, when corev1.UnsatisfiableConstraintAction) podOption {
	return func(p *corev1.Pod) {
		ofApp("spread")(p)
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: matching("spread"),
		}}
	}
}

// zonesOf counts pods by the zone of their node, and by node.
func (s *stack) zonesOf(pods []corev1.Pod) (zones, nodes map[string]int) {
	s.Helper()
	zones, nodes = map[string]int{}, map[string]int{}
	for _, p := range pods {
		node, err := s.client.CoreV1().Nodes().Get(s.Context(), p.Spec.NodeName, metav1.GetOptions{})
		s.must(err)
		zones[node.Labels[corev1.LabelTopologyZone]]++
		nodes[node.Name]++
	}
	return zones, nodes
}

// labNodes adds n nodes for one lab, spread over two zones of its own.
func (s *stack) labNodes(ns string, n int) {
	s.Helper()
	var specs []nodeSpec
	for i := range n {
		specs = append(specs, nodeSpec{name: fmt.Sprintf("%s-%d", ns, i), labels: map[string]string{
			lab: ns, corev1.LabelTopologyZone: fmt.Sprintf("%s-zone-%d", ns, i%2),
		}})
	}
	s.addNodes(specs...)
}

// The system's default constraints: hostname with skew 3, zone with skew 5, both soft. tolerance is by how many
// pods a zone may differ from half of them.
func defaultSpread(s *stack, ns string, tolerance int) {
	replicas, labels := int32(30), map[string]string{app: "web"}
	spec := podSpec("100m")
	spec.NodeSelector = map[string]string{lab: spreadNodes}
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: matching("web"),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	zones, nodes := s.zonesOf(s.bound(ns, 30, placedWithin))
	for zone, n := range zones {
		if n < 15-tolerance || n > 15+tolerance {
			s.Errorf("zone %s has %d pods, want 15 of 30 give or take %d (%v)", zone, n, tolerance, zones)
		}
	}
	for node, n := range nodes {
		if n < 3 || n > 7 {
			s.Errorf("node %s has %d pods, want 5 give or take 2 (%v)", node, n, nodes)
		}
	}
}

func hardSpread(s *stack, ns string) {
	s.create(newPods(ns, "spread", 31, "100m", spreading(corev1.LabelTopologyZone, corev1.DoNotSchedule),
		requiring(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "zone-a", "zone-b", "zone-c"))...)
	zones, _ := s.zonesOf(s.bound(ns, 31, placedWithin))
	least, most := 31, 0
	for n := range maps.Values(zones) {
		least, most = min(least, n), max(most, n)
	}
	if len(zones) != 3 || most-least > 1 {
		s.Errorf("pods by zone: %v, want a skew of at most 1 over 3 zones", zones)
	}
}

func affinity(s *stack, ns string) {
	term := func(key, value string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: matching(value)}}
	}
	s.create(newPod(ns, "cache", "100m", ofApp("cache")))
	zones, _ := s.zonesOf(s.bound(ns, 1, placedWithin))
	s.create(newPods(ns, "web", 5, "100m", ofApp("web"), func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelTopologyZone, "cache"),
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname, "web"),
			},
		}
	})...)
	all := s.bound(ns, 6, placedWithin)
	after, _ := s.zonesOf(all)
	if len(after) != 1 || !maps.EqualFunc(zones, after, func(int, int) bool { return true }) {
		s.Errorf("pods by zone: %v, want all in the zone of the cache: %v", after, zones)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if p.Labels[app] != "web" {
			continue
		}
		if seen[p.Spec.NodeName] {
			s.Errorf("two web pods on %s", p.Spec.NodeName)
		}
		seen[p.Spec.NodeName] = true
	}
}
