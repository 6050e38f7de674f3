//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// lab is the label that gives each of the tests below nodes of its own, so that they share a
// cluster and not their outcomes.
const lab = "berth.dev/lab"

// Pods are placed where their specification allows, and report why when there is no such place.
func TestPlacement(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	for i, test := range []struct {
		name string
		run  func(*stack, string)
	}{
		{"selected nodes only", nodeSelector},
		{"required node affinity with every operator", requiredAffinity},
		{"preferred node affinity by weight", preferredAffinity},
		{"tainted nodes need a toleration", taintedNodes},
		{"one host port per node", hostPorts},
		{"requests are fitted against allocatable", allocatable},
		{"init containers count with their peak", initPeak},
		{"a pod with a node of the user's is counted and left alone", userNode},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			test.run(&inner, inner.namespace(fmt.Sprintf("placement-%d", i)))
			inner.audit()
		}) {
			return
		}
	}
}

func nodeSelector(s *stack, ns string) {
	s.addNodes(
		nodeSpec{name: "ssd-0", labels: map[string]string{lab: ns, "disktype": "ssd"}},
		nodeSpec{name: "ssd-1", labels: map[string]string{lab: ns, "disktype": "ssd"}},
		nodeSpec{name: "disk-0", labels: map[string]string{lab: ns, "disktype": "hdd"}},
	)
	s.create(newPods(ns, "ssd", 8, "1", selecting("disktype", "ssd"))...)
	s.onlyOn(ns, 8, "ssd-0", "ssd-1")
}

// onlyOn waits for n bound pods and checks that they are on the given nodes and use them all.
func (s *stack) onlyOn(ns string, n int, nodes ...string) {
	s.Helper()
	used := sets.New[string]()
	for _, pod := range s.bound(ns, n, placedWithin) {
		used.Insert(pod.Spec.NodeName)
	}
	if !used.Equal(sets.New(nodes...)) {
		s.Errorf("pods stand on %v, want %v", sets.List(used), nodes)
	}
}

func requiredAffinity(s *stack, ns string) {
	const zone, size = "lab-zone", "lab-size"
	s.addNodes(
		nodeSpec{name: "east", labels: map[string]string{lab: ns, zone: "antarctica-east1", size: "10"}},
		nodeSpec{name: "west", labels: map[string]string{lab: ns, zone: "antarctica-west1", size: "20"}},
		nodeSpec{name: "north", labels: map[string]string{lab: ns, zone: "arctica-north1", size: "30"}},
		nodeSpec{name: "bare", labels: map[string]string{lab: ns}},
	)
	for i, test := range []struct {
		key      string
		operator corev1.NodeSelectorOperator
		values   []string
		want     []string
	}{
		{zone, corev1.NodeSelectorOpIn, []string{"antarctica-east1", "antarctica-west1"}, []string{"east", "west"}},
		{zone, corev1.NodeSelectorOpNotIn, []string{"antarctica-east1", "antarctica-west1"}, []string{"bare", "north"}},
		{zone, corev1.NodeSelectorOpExists, nil, []string{"east", "north", "west"}},
		{zone, corev1.NodeSelectorOpDoesNotExist, nil, []string{"bare"}},
		{size, corev1.NodeSelectorOpGt, []string{"20"}, []string{"north"}},
		{size, corev1.NodeSelectorOpLt, []string{"20"}, []string{"east"}},
	} {
		// The node selector keeps the pod among this test's nodes.
		name := fmt.Sprintf("pod-%d", i)
		s.create(newPod(ns, name, "100m", selecting(lab, ns), requiring(test.key, test.operator, test.values...)))
		if got := s.nodeOf(ns, name); !slices.Contains(test.want, got) {
			s.Errorf("%s %s %v: bound to %s, want one of %v", test.key, test.operator, test.values, got, test.want)
		}
	}
	s.create(newPod(ns, "nowhere", "100m", selecting(lab, ns), requiring(size, corev1.NodeSelectorOpGt, "30")))
	s.unschedulable(ns, "nowhere", "node(s) didn't match Pod's node affinity/selector")
}

func preferredAffinity(s *stack, ns string) {
	s.addNodes(
		nodeSpec{name: "wish-1", labels: map[string]string{lab: ns, "wish": "weak"}},
		nodeSpec{name: "wish-50", labels: map[string]string{lab: ns, "wish": "strong"}},
		nodeSpec{name: "wish-0", labels: map[string]string{lab: ns}},
	)
	s.create(newPod(ns, "wishful", "100m", selecting(lab, ns),
		preferring(1, "wish", "weak"), preferring(50, "wish", "strong")))
	if got := s.nodeOf(ns, "wishful"); got != "wish-50" {
		s.Errorf("bound to %s, want wish-50: its weight is 50 against 1", got)
	}
}

func taintedNodes(s *stack, ns string) {
	s.addNodes(
		nodeSpec{name: "gpu", labels: map[string]string{lab: ns, "accelerator": "nvidia"}, taints: []corev1.Taint{
			{Key: "accelerator", Value: "nvidia", Effect: corev1.TaintEffectNoSchedule},
		}},
		nodeSpec{name: "draining", labels: map[string]string{lab: ns}, taints: []corev1.Taint{
			{Key: "draining", Effect: corev1.TaintEffectNoExecute},
		}},
		nodeSpec{name: "avoided", labels: map[string]string{lab: ns}, taints: []corev1.Taint{
			{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule},
		}},
		nodeSpec{name: "free", labels: map[string]string{lab: ns}},
	)
	equal := corev1.Toleration{Key: "accelerator", Operator: corev1.TolerationOpEqual, Value: "nvidia"}
	other := corev1.Toleration{Key: "accelerator", Operator: corev1.TolerationOpEqual, Value: "amd"}
	exists := corev1.Toleration{Key: "accelerator", Operator: corev1.TolerationOpExists}
	onGPU := selecting("accelerator", "nvidia")
	s.create(
		newPod(ns, "plain", "100m", selecting(lab, ns)),
		newPod(ns, "equal", "100m", onGPU, tolerating(equal)),
		newPod(ns, "exists", "100m", onGPU, tolerating(exists)),
		newPod(ns, "other", "100m", onGPU, tolerating(other)),
	)
	for name, want := range map[string]string{"plain": "free", "equal": "gpu", "exists": "gpu"} {
		if got := s.nodeOf(ns, name); got != want {
			s.Errorf("%s stands on %s, want %s", name, got, want)
		}
	}
	s.unschedulable(ns, "other", "node(s) had untolerated taint")
}

func hostPorts(s *stack, ns string) {
	s.addNodes(
		nodeSpec{name: "port-0", labels: map[string]string{lab: ns}},
		nodeSpec{name: "port-1", labels: map[string]string{lab: ns}},
	)
	s.create(newPods(ns, "web", 2, "100m", selecting(lab, ns), onPort(8080))...)
	s.onlyOn(ns, 2, "port-0", "port-1")
	s.create(newPod(ns, "third", "100m", selecting(lab, ns), onPort(8080)))
	s.unschedulable(ns, "third", "2 node(s) didn't have free ports for the requested pod ports")
}

func allocatable(s *stack, ns string) {
	s.addNodes(nodeSpec{name: "reserved", capacity: "4", allocatable: "3500m", labels: map[string]string{lab: ns}})
	s.create(newPods(ns, "unit", 4, "1", selecting(lab, ns))...)
	s.bound(ns, 3, placedWithin)
	var waiting []string
	for _, pod := range s.pods(ns) {
		if pod.Spec.NodeName == "" {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(waiting) != 1 {
		s.Fatalf("%v wait, want one of four: 3500m are allocatable", waiting)
	}
	s.unschedulable(ns, waiting[0], "1 Insufficient cpu")
}

func initPeak(s *stack, ns string) {
	s.addNodes(nodeSpec{name: "starting", capacity: "4", labels: map[string]string{lab: ns}})
	s.create(newPod(ns, "peak", "500m", selecting(lab, ns), starting("3"), starting("2")))
	s.nodeOf(ns, "peak")
	s.create(newPod(ns, "beside", "1500m", selecting(lab, ns)))
	s.unschedulable(ns, "beside", "1 Insufficient cpu")
	s.create(newPod(ns, "fits", "1", selecting(lab, ns)))
	s.nodeOf(ns, "fits")
}

func userNode(s *stack, ns string) {
	s.addNodes(nodeSpec{name: "chosen", capacity: "4", labels: map[string]string{lab: ns}})
	s.create(newPod(ns, "user-0", "3", onNode("chosen")), newPod(ns, "user-1", "3", onNode("chosen")))
	s.create(newPod(ns, "late", "1", selecting(lab, ns)))
	s.unschedulable(ns, "late", "1 Insufficient cpu")
	for _, name := range []string{"user-0", "user-1"} {
		pod := s.pod(ns, name)
		if pod.Spec.NodeName != "chosen" || pod.DeletionTimestamp != nil {
			s.Errorf("%s: node %q, deleted %v: it was not Berth's to touch", name, pod.Spec.NodeName, pod.DeletionTimestamp)
		}
	}
	// The user overcommitted the node on purpose; the audit would report that for ever.
	s.deletePods(ns, "user-0", "user-1")
	s.nodeOf(ns, "late")
}
