package placementtest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Step is one step of a Script: a change, or a decision.
type Step struct {
	// Event is the change; unused when Pod is set.
	Event Event
	// Pod is the pod to decide about; it is not added to the cluster.
	Pod *corev1.Pod
	// Seed breaks the ties of the decision.
	Seed uint64
}

// Script is a history that starts with an empty cluster, with decisions in between: a decision may depend on
// earlier ones if the implementation remembers something.
type Script []Step

// NewScript returns the history that builds the cluster.
func NewScript(c *Cluster) Script {
	var s Script
	for _, e := range c.Events() {
		s = append(s, Step{Event: e})
	}
	return s
}

// Script draws a cluster and its changes, with this many decisions in between. Between decisions there are none to
// a few changes; a pod is often decided about again, or followed by replicas of it, and pods that were decided
// about later appear on nodes.
func (g *Generator) Script(decisions int) Script {
	c := g.Cluster()
	s := NewScript(&c)
	var asked []*corev1.Pod
	for range decisions {
		for g.Chance(60) {
			e := g.Event(&c)
			if len(asked) > 0 && len(c.Nodes) > 0 && g.Chance(15) {
				p := g.replica(Pick(g, asked...))
				p.Spec.NodeName, p.Status.NominatedNodeName = Pick(g, c.Nodes...).Name, ""
				e = Event{What: "pod added", Kind: events.KindPod, New: p}
			}
			s = append(s, Step{Event: c.Apply(e)})
		}
		var pod *corev1.Pod
		switch {
		case len(asked) == 0 || g.Chance(70):
			pod = g.Incoming(&c)
			asked = append(asked, pod)
		case g.Chance(50):
			pod = Pick(g, asked...)
		default:
			pod = g.replica(Pick(g, asked...))
		}
		for _, e := range g.ownClaims(pod, &c) {
			s = append(s, Step{Event: c.Apply(e)})
		}
		s = append(s, Step{Pod: pod, Seed: g.Uint64()})
	}
	return s
}

// replica returns the same pod under another name.
func (g *Generator) replica(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Name = g.next("pod")
	p.UID = types.UID("uid-" + p.Name)
	return p
}

// Shrink removes what a failure does not need: steps first, then parts of their objects, until nothing more can be
// removed. fails must report for any Script whether it still fails; s itself must fail.
func Shrink(s Script, fails func(Script) bool) Script {
	for size := -1; size != s.size(); {
		size = s.size()
		s = drop(s, fails)
		for i := range s {
			s = s.cut(i, fails)
		}
	}
	return s
}

// drop removes the steps without which the script still fails: halves first, then smaller pieces.
func drop(s Script, fails func(Script) bool) Script {
	for piece := max(1, len(s)/2); piece > 0; piece /= 2 {
		for at := 0; at+piece <= len(s); {
			if rest := slices.Concat(s[:at], s[at+piece:]); fails(rest) {
				s = rest
			} else {
				at += piece
			}
		}
	}
	return s
}

// cut reduces the object of one step.
func (s Script) cut(i int, fails func(Script) bool) Script {
	try := func(smaller Step) {
		next := slices.Clone(s)
		next[i] = smaller
		if next.size() < s.size() && fails(next) {
			s = next
		}
	}
	if s[i].Pod != nil {
		for _, cut := range podCuts {
			smaller := s[i]
			smaller.Pod = smaller.Pod.DeepCopy()
			cut(smaller.Pod)
			try(smaller)
		}
		return s
	}
	switch obj := s[i].Event.New.(type) {
	case *corev1.Pod:
		for _, cut := range podCuts {
			smaller, p := s[i], obj.DeepCopy()
			if last, ok := s[i].Event.New.(*corev1.Pod); ok {
				p = last.DeepCopy()
			}
			cut(p)
			smaller.Event.New = p
			try(smaller)
		}
	case *corev1.Node:
		for _, cut := range nodeCuts {
			smaller, n := s[i], obj.DeepCopy()
			if last, ok := s[i].Event.New.(*corev1.Node); ok {
				n = last.DeepCopy()
			}
			cut(n)
			smaller.Event.New = n
			try(smaller)
		}
	}
	return s
}

// podCuts each remove something from a pod.
var podCuts = []func(*corev1.Pod){
	func(p *corev1.Pod) { p.Spec.Affinity = nil },
	func(p *corev1.Pod) { affinity(p).NodeAffinity = nil },
	func(p *corev1.Pod) { affinity(p).PodAffinity = nil },
	func(p *corev1.Pod) { affinity(p).PodAntiAffinity = nil },
	func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = tail(p.Spec.TopologySpreadConstraints) },
	func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = head(p.Spec.TopologySpreadConstraints) },
	func(p *corev1.Pod) { p.Spec.Tolerations = tail(p.Spec.Tolerations) },
	func(p *corev1.Pod) { p.Spec.InitContainers, p.Status.InitContainerStatuses = nil, nil },
	func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
	func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{}} },
	func(p *corev1.Pod) { p.Spec.NodeSelector = nil },
	func(p *corev1.Pod) {
		p.Spec.Overhead = nil
		p.Spec.Resources = nil
		p.Spec.Volumes = nil
	},
	func(p *corev1.Pod) { p.Spec.Volumes = tail(p.Spec.Volumes) },
	func(p *corev1.Pod) { p.Spec.Volumes = head(p.Spec.Volumes) },
	func(p *corev1.Pod) { p.Status = corev1.PodStatus{} },
	func(p *corev1.Pod) { p.OwnerReferences = nil },
	func(p *corev1.Pod) { p.Labels = nil },
}

// nodeCuts each remove something from a node.
var nodeCuts = []func(*corev1.Node){
	func(n *corev1.Node) { n.Status.Images = nil },
	func(n *corev1.Node) { n.Status.Capacity = nil },
	func(n *corev1.Node) { n.Status.DeclaredFeatures = nil },
	func(n *corev1.Node) { n.Spec.Taints = nil },
	func(n *corev1.Node) { n.Spec.Unschedulable = false },
	func(n *corev1.Node) { n.Labels = nil },
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		return &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func tail[T any](list []T) []T { return list[min(1, len(list)):] }
func head[T any](list []T) []T { return list[:max(0, len(list)-1)] }

// sized is implemented by every object of a step.
type sized interface{ Size() int }

// size counts a step as much as a large object, so that fewer steps are always smaller.
func (s Script) size() int {
	const step = 1 << 20
	sum := step * len(s)
	for _, each := range s {
		var obj state.APIObject = each.Pod
		if each.Pod == nil {
			obj = each.Event.New
		}
		if obj, ok := obj.(sized); ok {
			sum += obj.Size()
		}
	}
	return sum
}

// String prints the steps in order, with new objects as YAML.
func (s Script) String() string {
	var b strings.Builder
	for i, step := range s {
		var obj state.APIObject = step.Pod
		if step.Pod != nil {
			fmt.Fprintf(&b, "# %d. decide, seed %d\n", i+1, step.Seed)
		} else {
			obj = step.Event.New
			fmt.Fprintf(&b, "# %d. %s\n", i+1, step.Event)
		}
		if obj == nil {
			continue
		}
		b.WriteString(describe(obj))
	}
	return b.String()
}

// describe returns an object as YAML, without the empty lines of every node's status.
func describe(obj state.APIObject) string {
	text, err := yaml.Marshal(obj)
	if err != nil {
		return err.Error() + "\n"
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return string(text)
	}
	if status, ok := fields["status"].(map[string]any); ok {
		delete(status, "daemonEndpoints")
		delete(status, "nodeInfo")
	}
	if text, err = yaml.Marshal(fields); err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}
