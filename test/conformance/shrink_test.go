package conformance

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// input is what one decision is about.
type input struct {
	cluster
	pod *corev1.Pod
}

// shrink drops what a failure does not need: nodes, pods, objects, and then parts of the
// pod to place, until nothing more can go. What is left still fails.
func shrink(in input, fails func(input) bool) input {
	for size := -1; size != in.size(); {
		size = in.size()
		in.nodes = drop(in.nodes, func(nodes []*corev1.Node) bool { return fails(in.on(nodes)) })
		in = in.on(in.nodes)
		in.pods = drop(in.pods, func(l []*corev1.Pod) bool { c := in; c.pods = l; return fails(c) })
		in.services = drop(in.services, func(l []*corev1.Service) bool { c := in; c.services = l; return fails(c) })
		in.namespaces = drop(in.namespaces, func(l []*corev1.Namespace) bool { c := in; c.namespaces = l; return fails(c) })
		for _, cut := range cuts {
			smaller := in
			smaller.pod = in.pod.DeepCopy()
			cut(smaller.pod)
			if smaller.pod.Size() < in.pod.Size() && fails(smaller) {
				in = smaller
			}
		}
	}
	return in
}

// cuts take something away from a pod.
var cuts = []func(*corev1.Pod){
	func(p *corev1.Pod) { p.Spec.Affinity = nil },
	func(p *corev1.Pod) { affinity(p).NodeAffinity = nil },
	func(p *corev1.Pod) { affinity(p).PodAffinity = nil },
	func(p *corev1.Pod) { affinity(p).PodAntiAffinity = nil },
	func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = tail(p.Spec.TopologySpreadConstraints) },
	func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = head(p.Spec.TopologySpreadConstraints) },
	func(p *corev1.Pod) { p.Spec.Tolerations = tail(p.Spec.Tolerations) },
	func(p *corev1.Pod) { p.Spec.InitContainers = nil },
	func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
	func(p *corev1.Pod) { p.Spec.Containers[0] = corev1.Container{} },
	func(p *corev1.Pod) { p.Spec.NodeSelector, p.Spec.Overhead, p.Spec.Resources = nil, nil, nil },
	func(p *corev1.Pod) { p.Labels, p.OwnerReferences = nil, nil },
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		return &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func tail[T any](list []T) []T { return list[min(1, len(list)):] }
func head[T any](list []T) []T { return list[:max(0, len(list)-1)] }

// drop leaves out the elements without which it fails all the same: halves first, then
// smaller pieces.
func drop[T any](list []T, fails func([]T) bool) []T {
	for piece := max(1, len(list)/2); piece > 0; piece /= 2 {
		for at := 0; at+piece <= len(list); {
			if rest := slices.Concat(list[:at], list[at+piece:]); fails(rest) {
				list = rest
			} else {
				at += piece
			}
		}
	}
	return list
}

// on is the input with these nodes alone, and the pods on them.
func (in input) on(nodes []*corev1.Node) input {
	in.nodes, in.pods = nodes, slices.DeleteFunc(slices.Clone(in.pods), func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName })
	})
	return in
}

func (in input) size() int {
	return len(in.nodes) + len(in.pods) + len(in.services) + len(in.namespaces) + in.pod.Size()
}

// String is the input as YAML.
func (in input) String() string {
	var b strings.Builder
	for _, part := range []struct {
		name string
		list any
	}{
		{"pod", in.pod}, {"nodes", in.nodes}, {"pods", in.pods}, {"namespaces", in.namespaces}, {"services", in.services},
		{"replica sets", in.replicaSets}, {"stateful sets", in.statefulSets}, {"replication controllers", in.controllers},
	} {
		text, err := yaml.Marshal(part.list)
		if err != nil {
			text = []byte(err.Error())
		}
		b.WriteString("# " + part.name + "\n" + string(text))
	}
	return b.String()
}

// TestShrink: what a made-up failure needs is left, and little else.
func TestShrink(t *testing.T) {
	g := newGenerator(1)
	in := input{cluster: g.cluster()}
	in.pod = g.incoming(&in.cluster)
	in.pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "a"}, {TopologyKey: "b"}}
	node, pod := in.pods[0].Spec.NodeName, in.pods[0].Name
	small := shrink(in, func(in input) bool {
		return slices.ContainsFunc(in.pods, func(p *corev1.Pod) bool { return p.Name == pod }) &&
			slices.ContainsFunc(in.pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
				return c.TopologyKey == "a"
			})
	})
	if len(small.nodes) != 1 || small.nodes[0].Name != node || len(small.pods) != 1 || len(small.namespaces) != 0 ||
		len(small.pod.Spec.TopologySpreadConstraints) != 1 || small.pod.Spec.Affinity != nil {
		t.Errorf("left over:\n%s", small)
	}
}
