package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// currentUsage measures the nodes and adds the moves made since the run began.
func (p *pass) currentUsage(m *meter, args *policy.LowUtilization) ([]*nodeUsage, error) {
	if l, ok := p.concerns[args].(*levels); ok {
		return l.copied(), nil
	}
	return p.meters().measureNodes(m)
}

// lowUtilization implements LowNodeUtilization: it evicts pods from overutilised nodes until they no longer are,
// for as long as the underutilised ones have room. The fullest node is drained first. Cordoned nodes can be too
// full, but receive nothing.
func (p *pass) lowUtilization(args *policy.LowUtilization) error {
	m := p.meters().of(args)
	all, err := p.currentUsage(&m, args)
	if err != nil {
		return err
	}
	low, high := args.Thresholds, args.Targets
	if args.Deviation {
		low, high = deviations(all, low, high)
	}
	var under, over []*nodeUsage
	for _, n := range all {
		switch {
		case !n.Object.Spec.Unschedulable && n.below(low):
			under = append(under, n)
			p.recordNode(n, "under", low, high)
		case n.above(high):
			over = append(over, n)
			p.recordNode(n, "over", low, high)
		default:
			p.recordNode(n, "between", low, high)
		}
	}
	if p.noteIdleNodes(all, under, low, args.NumberOfNodes) {
		return nil
	}
	if len(over) == 0 {
		n := extreme(all, high, 1)
		p.note("no node is above the target thresholds: the fullest is %s with %s", n.Name, n.describe(high))
		return nil
	}
	for _, n := range all {
		n.limit(m.names, high)
	}
	slices.SortStableFunc(over, func(a, b *nodeUsage) int { return cmp.Compare(b.weight(), a.weight()) })
	p.drain(&drain{
		meter: &m, from: over, to: under, others: all, exclude: args.ExcludeNamespaces, perNode: args.NodeLimit,
		hasExcess: func(n *nodeUsage) bool {
			return slices.ContainsFunc(m.names, func(name corev1.ResourceName) bool { return n.used[name] > n.cap[name] })
		},
		picks: func(*Pod) bool { return true },
		reason: func(n *nodeUsage) string {
			return "node " + n.Name + " is over: " + n.describe(high)
		},
	})
	return nil
}

// highUtilization implements HighNodeUtilization: it empties underutilised nodes, for as long as the others have
// room. The emptiest node is drained first. It is for clusters whose autoscaler removes empty nodes.
func (p *pass) highUtilization(args *policy.HighUtilization) error {
	m := p.meters().fromRequests(resourcesOf(args.Thresholds))
	all, err := p.meters().measureNodes(&m)
	if err != nil {
		return err
	}
	var under, others []*nodeUsage
	for _, n := range all {
		switch {
		case n.below(args.Thresholds):
			under = append(under, n)
			p.recordNode(n, "under", args.Thresholds)
		case !n.Object.Spec.Unschedulable:
			others = append(others, n)
		}
	}
	if p.noteIdleNodes(all, under, args.Thresholds, args.NumberOfNodes) {
		return nil
	}
	if len(others) == 0 {
		p.note("all nodes above the thresholds are cordoned: no node can receive pods")
		return nil
	}
	for _, n := range all {
		n.limit(m.names, nil)
	}
	slices.SortStableFunc(under, func(a, b *nodeUsage) int { return cmp.Compare(a.weight(), b.weight()) })
	p.drain(&drain{
		meter: &m, from: under, to: others, exclude: args.ExcludeNamespaces,
		hasExcess: func(*nodeUsage) bool { return true },
		picks:     func(pod *Pod) bool { return !args.OnlyThresholdResources || requestsAny(pod.spec(), args.Thresholds) },
		reason: func(n *nodeUsage) string {
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

// recordNode records the strategy's judgement of a node.
func (p *pass) recordNode(n *nodeUsage, class string, thresholds ...policy.Thresholds) {
	if p.Kept == nil {
		return
	}
	if p.report.Nodes == nil {
		p.report.Nodes = map[string]string{}
	}
	var shares []string
	for _, name := range slices.Sorted(maps.Keys(thresholds[0])) {
		limits := make([]string, 0, len(thresholds))
		for _, t := range thresholds {
			limits = append(limits, fmt.Sprintf("%.0f%%", t[name]))
		}
		shares = append(shares, fmt.Sprintf("%s %.0f%% (%s)", name, n.percent[corev1.ResourceName(name)],
			strings.Join(limits, " to ")))
	}
	p.report.Nodes[n.Name] = class + ": " + strings.Join(shares, ", ")
}

// noteIdleNodes reports why LowNodeUtilization or HighNodeUtilization has nothing to do with these numbers of nodes,
// and whether that is so.
func (p *pass) noteIdleNodes(all, under []*nodeUsage, low policy.Thresholds, numberOfNodes int) bool {
	switch {
	case len(under) == 0:
		n := extreme(all, low, -1)
		p.note("no node that can receive pods is at or below the thresholds: the emptiest is %s with %s",
			n.Name, n.describe(low))
	case len(under) <= numberOfNodes:
		p.note("%d nodes are at or below the thresholds, numberOfNodes requires more than %d", len(under), numberOfNodes)
	case len(under) == len(all):
		p.note("all %d nodes are at or below the thresholds", len(all))
	default:
		return false
	}
	return true
}
