package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// Usage is actual utilisation, which strategies may use instead of requests.
type Usage struct {
	// Nodes and Pods are those of metrics.k8s.io: by node name, and by "namespace/name"; cpu in milli, memory in
	// bytes.
	Nodes, Pods map[string]map[corev1.ResourceName]int64
	// Unmeasured explains why no data of metrics.k8s.io is available; nil if there is some.
	Unmeasured error
	// Queries holds the results of Prometheus queries: by query and node name, from 0 to 1.
	Queries map[string]map[string]float64
	// Failed holds the queries that failed, with the error.
	Failed map[string]error
}

// amounts holds amounts of resources; cpu in milli.
type amounts map[corev1.ResourceName]int64

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

// bearing is a node with its usage.
type bearing struct {
	*Node
	used amounts
	// percent is the usage in percent of the node's capacity, for resources that it has.
	percent map[corev1.ResourceName]float64
	// cap is how much of each resource may be in use.
	cap amounts
}

// basic holds the resources that always count when requests or metrics.k8s.io are the source.
var basic = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}

// resourcesOf returns those of the thresholds and the basic ones, sorted.
func resourcesOf(t policy.Thresholds) []corev1.ResourceName {
	names := slices.Clone(basic)
	for name := range t {
		names = append(names, corev1.ResourceName(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// meters makes meters of the nodes of a view, and reads them.
type meters struct {
	view  *View
	usage *Usage
}

func (p *pass) meters() meters { return meters{view: p.view, usage: &p.Usage} }

// requested returns the meter of requests.
func (m meters) requested(names []corev1.ResourceName) meter {
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
		pod: func(pod *Pod) (amounts, bool) { return m.view.takenBy(pod), true },
	}
}

// measured returns the meter of metrics.k8s.io. A pod that it does not report cannot be weighed and stays.
func (m meters) measured(names []corev1.ResourceName) meter {
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

// queried returns the meter of a Prometheus query: whole percentages of a node, nothing about pods.
func (m meters) queried(query string) meter {
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

// weigh measures all selected nodes.
func (m meters) weigh(by *meter) ([]*bearing, error) {
	var all []*bearing
	for _, n := range m.view.looked {
		used, err := by.node(n)
		if err != nil {
			return nil, fmt.Errorf("error getting node usage: %w", err)
		}
		b := &bearing{Node: n, used: used}
		b.gauge()
		all = append(all, b)
	}
	return all, nil
}

// weighNow is weigh with the moves made since.
func (p *pass) weighNow(m *meter, args *policy.LowUtilization) ([]*bearing, error) {
	if l, ok := p.concerns[args].(*levels); ok {
		return l.copied(), nil
	}
	return p.meters().weigh(m)
}

// gauge sets percent.
func (n *bearing) gauge() {
	n.percent = make(map[corev1.ResourceName]float64, len(n.used))
	for name, amount := range n.used {
		if total, ok := n.capacity(name); ok {
			n.percent[name] = percentOf(amount, total)
		}
	}
}

func percentOf(amount, total int64) float64 {
	if total <= 0 {
		return 0
	}
	return float64(amount) / float64(total) * 100
}

// capacity returns what the node can provide; ok is false for a resource that it does not have. A node that does
// not report what is allocatable provides its whole capacity.
func (n *bearing) capacity(name corev1.ResourceName) (amount int64, ok bool) {
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
func (n *bearing) limit(names []corev1.ResourceName, thresholds policy.Thresholds) {
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
func (n *bearing) below(t policy.Thresholds) bool { return !n.above(t) }

// above reports whether some resource is above its threshold. A resource that the node does not have counts as 0.
func (n *bearing) above(t policy.Thresholds) bool {
	for name, most := range t {
		if n.percent[corev1.ResourceName(name)] > most {
			return true
		}
	}
	return false
}

// weight orders nodes by a plain sum of what is in use, regardless of units, as upstream does.
func (n *bearing) weight() int64 {
	sum := int64(0)
	for _, amount := range n.used {
		sum += amount
	}
	return sum
}

// deviations converts distances from the mean of all nodes to thresholds, within 0 and 100.
func deviations(all []*bearing, low, high policy.Thresholds) (lower, upper policy.Thresholds) {
	sums, counts := map[string]float64{}, map[string]int{}
	for _, n := range all {
		for name, percent := range n.percent {
			if _, asked := low[string(name)]; asked {
				sums[string(name)] += percent
				counts[string(name)]++
			}
		}
	}
	lower, upper = policy.Thresholds{}, policy.Thresholds{}
	for name, sum := range sums {
		mean := sum / float64(counts[name])
		lower[name] = min(max(mean-low[name], 0), 100)
		upper[name] = min(max(mean+high[name], 0), 100)
	}
	return lower, upper
}

// lowUtilization implements LowNodeUtilization: it evicts pods from overutilised nodes until they no longer are,
// for as long as the underutilised ones have room.
func (p *pass) lowUtilization(args *policy.LowUtilization) error {
	m := p.meters().of(args)
	all, err := p.weighNow(&m, args)
	if err != nil {
		return err
	}
	low, high := args.Thresholds, args.Targets
	if args.Deviation {
		low, high = deviations(all, low, high)
	}
	var under, over []*bearing
	for _, n := range all {
		switch {
		case !n.Object.Spec.Unschedulable && n.below(low):
			under = append(under, n)
			p.judge(n, "under", low, high)
		case n.above(high):
			over = append(over, n)
			p.judge(n, "over", low, high)
		default:
			p.judge(n, "between", low, high)
		}
	}
	if p.sayWhyNot(all, under, low, args.NumberOfNodes) {
		return nil
	}
	if len(over) == 0 {
		n := extreme(all, high, 1)
		p.say("no node is above the target thresholds: the fullest is %s with %s", n.Name, n.describe(high))
		return nil
	}
	for _, n := range all {
		n.limit(m.names, high)
	}
	slices.SortStableFunc(over, func(a, b *bearing) int { return cmp.Compare(b.weight(), a.weight()) })
	p.drain(&drain{
		meter: &m, from: over, to: under, others: all, exclude: args.ExcludeNamespaces, perNode: args.NodeLimit,
		wants: func(n *bearing) bool {
			return slices.ContainsFunc(m.names, func(name corev1.ResourceName) bool { return n.used[name] > n.cap[name] })
		},
		picks: func(*Pod) bool { return true },
		why: func(n *bearing) string {
			return "node " + n.Name + " is over: " + n.describe(high)
		},
	})
	return nil
}

// of returns the meter that the arguments ask for.
func (m meters) of(args *policy.LowUtilization) meter {
	switch args.Source {
	case policy.PrometheusMetrics:
		return m.queried(args.Query)
	case policy.KubernetesMetrics:
		return m.measured(resourcesOf(args.Thresholds))
	default:
		return m.requested(resourcesOf(args.Thresholds))
	}
}

// highUtilization implements HighNodeUtilization: it empties underutilised nodes, for as long as the others have
// room.
func (p *pass) highUtilization(args *policy.HighUtilization) error {
	m := p.meters().requested(resourcesOf(args.Thresholds))
	all, err := p.meters().weigh(&m)
	if err != nil {
		return err
	}
	var under, others []*bearing
	for _, n := range all {
		switch {
		case n.below(args.Thresholds):
			under = append(under, n)
			p.judge(n, "under", args.Thresholds)
		case !n.Object.Spec.Unschedulable:
			others = append(others, n)
		}
	}
	if p.sayWhyNot(all, under, args.Thresholds, args.NumberOfNodes) {
		return nil
	}
	if len(others) == 0 {
		p.say("all nodes above the thresholds are cordoned: no node can receive pods")
		return nil
	}
	for _, n := range all {
		n.limit(m.names, nil)
	}
	slices.SortStableFunc(under, func(a, b *bearing) int { return cmp.Compare(a.weight(), b.weight()) })
	p.drain(&drain{
		meter: &m, from: under, to: others, exclude: args.ExcludeNamespaces,
		wants: func(*bearing) bool { return true },
		picks: func(pod *Pod) bool { return !args.OnlyThresholdResources || requestsAny(pod.spec(), args.Thresholds) },
		why: func(n *bearing) string {
			return "node " + n.Name + " is to be emptied: " + n.describe(args.Thresholds)
		},
	})
	return nil
}

func requestsAny(spec *corev1.PodSpec, of policy.Thresholds) bool {
	return slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), func(c corev1.Container) bool {
		for name := range c.Resources.Requests {
			if _, ok := of[string(name)]; ok {
				return true
			}
		}
		return false
	})
}

// describe shows usage next to thresholds: "cpu 93% (50%)".
func (n *bearing) describe(t policy.Thresholds) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %.0f%% (%.0f%%)", name, n.percent[corev1.ResourceName(name)], t[name])
	}
	return text
}
