package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// levels is how full nodes are, as LowNodeUtilization measures it, after the accepted moves of all strategies.
type levels struct {
	meter
	all    []*nodeUsage
	byNode map[*Node]*nodeUsage
}

// newLevels measures the nodes before the first strategy runs, with the upper thresholds as their limits.
func (p *pass) newLevels(args *policy.LowUtilization) (*levels, error) {
	l := &levels{meter: p.meters().of(args), byNode: map[*Node]*nodeUsage{}}
	all, err := p.meters().measureNodes(&l.meter)
	if err != nil {
		return nil, err
	}
	l.all = all
	high := args.Targets
	if args.Deviation {
		_, high = deviations(all, args.Thresholds, high)
	}
	for _, n := range all {
		n.limit(l.names, high)
		l.byNode[n.Node] = n
	}
	return l, nil
}

// copied returns copies of the bearings in their current state.
func (l *levels) copied() []*nodeUsage {
	all := make([]*nodeUsage, 0, len(l.all))
	for _, n := range l.all {
		c := &nodeUsage{Node: n.Node, used: amounts{}}
		for name, amount := range n.used {
			c.used[name] = amount
		}
		c.setPercent()
		all = append(all, c)
	}
	return all
}

// accepts reports whether the node does not become fuller than allowed.
func (l *levels) accepts(pod *Pod, to *Node) bool {
	at := l.byNode[to]
	used, known := l.pod(pod)
	return at == nil || !known || !l.counted || !slices.ContainsFunc(l.names, func(name corev1.ResourceName) bool {
		return at.used[name]+used.of(name) > at.cap[name]
	})
}

// soft is true: a node that becomes too full is preferable to a rule that stays broken.
func (l *levels) soft() bool { return true }

func (l *levels) moved(pod *Pod, to *Node) {
	used, known := l.pod(pod)
	if !known || !l.counted {
		return
	}
	for n, sign := range map[*nodeUsage]int64{l.byNode[pod.Node]: -1, l.byNode[to]: 1} {
		if n == nil {
			continue
		}
		for _, name := range l.names {
			n.used[name] += sign * used.of(name)
		}
	}
}

// deviations converts distances from the mean of all nodes to thresholds, within 0 and 100.
func deviations(all []*nodeUsage, low, high policy.Thresholds) (lower, upper policy.Thresholds) {
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
