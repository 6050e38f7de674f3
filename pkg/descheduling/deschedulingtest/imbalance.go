package deschedulingtest

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Imbalance returns how much there is of what the world's strategy removes: 0 is none.
func (w *World) Imbalance() float64 {
	switch w.Strategy {
	case Low:
		return w.overload()
	case Duplicates:
		return w.crowding()
	case Spread:
		return w.skew()
	default:
		// Percentage points count less than pods.
		return w.crowding() + w.skew() + w.overload()/100
	}
}

// overload returns the sum, over nodes and resources, of the percentage points above the target, as long as some
// node has room.
func (w *World) overload() float64 {
	sum, roomy := 0.0, false
	for _, n := range w.Nodes {
		cpu := w.percent(n, corev1.ResourceCPU)
		memory := w.percent(n, corev1.ResourceMemory)
		roomy = roomy || cpu <= under && memory <= under
		sum += max(0, cpu-over) + max(0, memory-over)
	}
	if !roomy {
		return 0
	}
	return sum
}

func (w *World) percent(n *corev1.Node, name corev1.ResourceName) float64 {
	used := 0.0
	for _, p := range w.Pods {
		if p.Spec.NodeName == n.Name {
			q := p.Spec.Containers[0].Resources.Requests[name]
			used += q.AsApproximateFloat64()
		}
	}
	q := n.Status.Allocatable[name]
	return 100 * used / q.AsApproximateFloat64()
}

// crowding returns how many pods exceed an even share of their owner's pods per eligible node.
func (w *World) crowding() float64 {
	sum := 0
	for _, s := range w.Sets {
		on, total := map[string]int{}, 0
		var nodes []*corev1.Node
		for _, p := range w.Pods {
			if p.Labels["app"] != s.Name {
				continue
			}
			on[p.Spec.NodeName]++
			total++
			nodes = slices.DeleteFunc(slices.Clone(w.Nodes), func(n *corev1.Node) bool {
				return !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(n.Labels))
			})
		}
		if total == 0 {
			continue
		}
		share := (total + len(nodes) - 1) / len(nodes)
		for _, n := range on {
			sum += max(0, n-share)
		}
	}
	return float64(sum)
}

// skew returns by how much the hard constraints are exceeded.
func (w *World) skew() float64 {
	sum := 0
	for _, s := range w.Sets {
		i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.Labels["app"] == s.Name })
		if i < 0 {
			continue
		}
		for _, c := range w.Pods[i].Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				sum += max(0, w.skewOf(&c)-int(c.MaxSkew))
			}
		}
	}
	return float64(sum)
}

func (w *World) skewOf(c *corev1.TopologySpreadConstraint) int {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return 0
	}
	sizes, domains := map[string]int{}, map[string]string{}
	for _, n := range w.Nodes {
		sizes[n.Labels[c.TopologyKey]] += 0
		domains[n.Name] = n.Labels[c.TopologyKey]
	}
	for _, p := range w.Pods {
		if value, ok := domains[p.Spec.NodeName]; ok && selector.Matches(labels.Set(p.Labels)) {
			sizes[value]++
		}
	}
	least, most := math.MaxInt, 0
	for _, n := range sizes {
		least, most = min(least, n), max(most, n)
	}
	return most - least
}
