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

// weighNow is weigh with the moves made since.
func (p *pass) weighNow(m *meter, args *policy.LowUtilization) ([]*bearing, error) {
	if l, ok := p.concerns[args].(*levels); ok {
		return l.copied(), nil
	}
	return p.meters().weigh(m)
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

// judge records the strategy's judgement of a node.
func (p *pass) judge(n *bearing, class string, thresholds ...policy.Thresholds) {
	if p.Kept == nil {
		return
	}
	if p.told.Nodes == nil {
		p.told.Nodes = map[string]string{}
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
	p.told.Nodes[n.Name] = class + ": " + strings.Join(shares, ", ")
}

// sayWhyNot reports why LowNodeUtilization or HighNodeUtilization has nothing to do with these numbers of nodes,
// and whether that is so.
func (p *pass) sayWhyNot(all, under []*bearing, low policy.Thresholds, numberOfNodes int) bool {
	switch {
	case len(under) == 0:
		n := extreme(all, low, -1)
		p.say("no node that can receive pods is at or below the thresholds: the emptiest is %s with %s",
			n.Name, n.describe(low))
	case len(under) <= numberOfNodes:
		p.say("%d nodes are at or below the thresholds, numberOfNodes requires more than %d", len(under), numberOfNodes)
	case len(under) == len(all):
		p.say("all %d nodes are at or below the thresholds", len(all))
	default:
		return false
	}
	return true
}
