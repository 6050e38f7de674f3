package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// extreme returns the node that is farthest above the thresholds, or with sign -1 farthest below, by the resource
// that is decisive there.
func extreme(all []*nodeUsage, t policy.Thresholds, sign float64) *nodeUsage {
	distance := func(n *nodeUsage) float64 {
		most := 0.0
		for i, name := range slices.Sorted(maps.Keys(t)) {
			if d := n.percent[corev1.ResourceName(name)] - t[name]; i == 0 || d > most {
				most = d
			}
		}
		return sign * most
	}
	return slices.MaxFunc(all, func(a, b *nodeUsage) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(b.Name, a.Name))
	})
}

// amounts holds amounts of resources; cpu in milli.
type amounts map[corev1.ResourceName]int64

// of returns how much of a resource a pod uses; of the resource pods it uses one.
func (a amounts) of(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return a[name]
}

// meter measures usage with one source.
type meter struct {
	// names holds the resources that count, sorted.
	names []corev1.ResourceName
	// node returns the usage of a node, with all of names.
	node func(*Node) (amounts, error)
	// pod returns the usage of a pod; known is false when the source does not report it. counted reports whether
	// the source can measure pods at all.
	pod     func(*Pod) (used amounts, known bool)
	counted bool
}

// nodeUsage is a node with its usage by a meter. used follows the accepted moves, percent does not.
type nodeUsage struct {
	*Node
	used amounts
	// percent is the usage in percent of the node's capacity, for resources that it has.
	percent map[corev1.ResourceName]float64
	// cap is how much of each resource may be in use.
	cap amounts
}

// resourcesOf returns those of the thresholds and the basic ones, sorted.
func resourcesOf(t policy.Thresholds) []corev1.ResourceName {
	names := slices.Clone(basic)
	for name := range t {
		names = append(names, corev1.ResourceName(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// meterFactory makes meters of the nodes of a view, and reads them.
type meterFactory struct {
	view  *View
	usage *Usage
}

func (p *pass) meters() meterFactory { return meterFactory{view: p.view, usage: &p.Usage} }

// fromRequests returns the meter of requests.
func (m meterFactory) fromRequests(names []corev1.ResourceName) meter {
	return meter{
		names: names, counted: true,
		node: func(n *Node) (amounts, error) {
			used, out := m.view.usageOf(n), amounts{}
			for _, name := range names {
				out[name] = used.amounts[name]
			}
			out[corev1.ResourcePods] = used.pods
			return out, nil
		},
		pod: func(pod *Pod) (amounts, bool) { return m.view.chargedTo(pod), true },
	}
}

// fromMetrics returns the meter of metrics.k8s.io. A pod that it does not report cannot be weighed and stays.
func (m meterFactory) fromMetrics(names []corev1.ResourceName) meter {
	return meter{
		names: names, counted: true,
		node: func(n *Node) (amounts, error) {
			if m.usage.Unmeasured != nil {
				return nil, m.usage.Unmeasured
			}
			known, ok := m.usage.Nodes[n.Name]
			if !ok {
				return nil, fmt.Errorf("unable to find node %q in the collected metrics", n.Name)
			}
			out := amounts{}
			for _, name := range names {
				if out[name], ok = known[name]; !ok && name != corev1.ResourcePods {
					return nil, fmt.Errorf("unable to find %q resource for collected %q node metric", name, n.Name)
				}
			}
			out[corev1.ResourcePods] = m.view.usageOf(n).pods
			return out, nil
		},
		pod: func(pod *Pod) (amounts, bool) {
			used, ok := m.usage.Pods[pod.Key()]
			for _, name := range names {
				_, has := used[name]
				ok = ok && (has || name == corev1.ResourcePods)
			}
			return used, ok
		},
	}
}

// fromPrometheus returns the meter of a Prometheus query: whole percentages of a node, nothing about pods.
func (m meterFactory) fromPrometheus(query string) meter {
	return meter{
		names: []corev1.ResourceName{policy.MetricResource},
		node: func(n *Node) (amounts, error) {
			if err := m.usage.Failed[query]; err != nil {
				return nil, err
			}
			value, ok := m.usage.Queries[query][n.Name]
			if !ok {
				return nil, fmt.Errorf("unable to find metric entry for %s", n.Name)
			}
			if !(value >= 0 && value <= 1) { // also true for NaN: 0/0 in a query
				return nil, fmt.Errorf("the collected metrics sample for %q has value %v outside of <0; 1> interval",
					n.Name, value)
			}
			return amounts{policy.MetricResource: int64(value * 100)}, nil
		},
		pod: func(*Pod) (amounts, bool) { return nil, true },
	}
}

// of returns the meter that the arguments ask for.
func (m meterFactory) of(args *policy.LowUtilization) meter {
	switch args.Source {
	case policy.PrometheusMetrics:
		return m.fromPrometheus(args.Query)
	case policy.KubernetesMetrics:
		return m.fromMetrics(resourcesOf(args.Thresholds))
	default:
		return m.fromRequests(resourcesOf(args.Thresholds))
	}
}

// measureNodes measures all selected nodes. One node without data fails the strategy: its share could not be
// compared.
func (m meterFactory) measureNodes(by *meter) ([]*nodeUsage, error) {
	var all []*nodeUsage
	for _, n := range m.view.selected {
		used, err := by.node(n)
		if err != nil {
			return nil, fmt.Errorf("error getting node usage: %w", err)
		}
		b := &nodeUsage{Node: n, used: used}
		b.setPercent()
		all = append(all, b)
	}
	return all, nil
}

// setPercent sets percent.
func (n *nodeUsage) setPercent() {
	n.percent = make(map[corev1.ResourceName]float64, len(n.used))
	for name, amount := range n.used {
		if total, ok := n.capacity(name); ok {
			n.percent[name] = percentOf(amount, total)
		}
	}
}

// percentOf returns 0 for a total of 0.
func percentOf(amount, total int64) float64 {
	if total <= 0 {
		return 0
	}
	return float64(amount) / float64(total) * 100
}

// capacity returns what the node can provide; ok is false for a resource that it does not have. A node that does
// not report what is allocatable provides its whole capacity.
func (n *nodeUsage) capacity(name corev1.ResourceName) (amount int64, ok bool) {
	if name == policy.MetricResource {
		return 100, true
	}
	list := n.Object.Status.Allocatable
	if len(list) == 0 {
		list = n.Object.Status.Capacity
	}
	_, ok = list[name]
	return capacityOf(list, name), ok
}

// limit sets how much of each resource may be in use: the threshold's share of the capacity, or all of it where
// there is no threshold.
func (n *nodeUsage) limit(names []corev1.ResourceName, thresholds policy.Thresholds) {
	n.cap = amounts{}
	for _, name := range names {
		total, _ := n.capacity(name)
		if t, ok := thresholds[string(name)]; ok {
			total = int64(t * 0.01 * float64(total))
		}
		n.cap[name] = total
	}
}

// below reports whether no resource is above its threshold.
func (n *nodeUsage) below(t policy.Thresholds) bool { return !n.above(t) }

// above reports whether some resource is above its threshold. A resource that the node does not have counts as 0.
func (n *nodeUsage) above(t policy.Thresholds) bool {
	for name, most := range t {
		if n.percent[corev1.ResourceName(name)] > most {
			return true
		}
	}
	return false
}

// weight orders nodes by a plain sum of what is in use, regardless of units, as upstream does.
func (n *nodeUsage) weight() int64 {
	sum := int64(0)
	for _, amount := range n.used {
		sum += amount
	}
	return sum
}

// describe shows usage next to thresholds: "cpu 93% (50%)".
func (n *nodeUsage) describe(t policy.Thresholds) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %.0f%% (%.0f%%)", name, n.percent[corev1.ResourceName(name)], t[name])
	}
	return text
}

// takes reports whether the node, with a pod of another node, stays within its limit, or at least is less full,
// relative to its size, than that node is now.
func (n *nodeUsage) takes(from *nodeUsage, used amounts, names []corev1.ResourceName) bool {
	return !slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		after := n.used[name] + used.of(name)
		return after > n.cap[name] && !relieves(after, n.cap[name], from.used[name], from.cap[name])
	})
}

// relieves reports whether after, relative to limit, is less than before, relative to other.
func relieves(after, limit, before, other int64) bool {
	return float64(after)*float64(other) < float64(before)*float64(limit)
}
