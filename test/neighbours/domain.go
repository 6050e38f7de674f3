package neighbours

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// placement is a rule that a scenario checks: all pods of one group run on nodes of one domain. The domain of a node is
// the value of one of its labels.
type placement struct {
	domain map[string]string
	// group names the group of a pod, empty for none.
	group func(*corev1.Pod) string
	// alone: no two groups are in one domain at the same time.
	alone bool
}

// stay is one pod on its node.
type stay struct {
	name, group, domain string
	from, to            time.Time
}

// violations are pairs of pods that were where they must not be together, one sentence for each pair of groups or
// domains, in the order of the pods.
func (p placement) violations(pods []traced) (list []string) {
	stays := p.stays(pods)
	for i, a := range stays {
		for _, b := range stays[:i] {
			if a.from.Before(b.to) && b.from.Before(a.to) {
				list = append(list, p.wrong(a, b)...)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (p placement) stays(pods []traced) (list []stay) {
	for _, one := range pods {
		if one.bound.IsZero() || p.group(one.pod) == "" {
			continue
		}
		s := stay{
			name: one.pod.Name, group: p.group(one.pod), domain: p.domain[one.pod.Spec.NodeName], from: one.bound, to: one.ended,
		}
		if s.to.IsZero() {
			s.to = time.Now()
		}
		list = append(list, s)
	}
	return list
}

func (p placement) wrong(a, b stay) []string {
	switch {
	case a.group == b.group && a.domain != b.domain:
		domains := []string{a.domain, b.domain}
		slices.Sort(domains)
		return []string{fmt.Sprintf("the pods of %s are in %s and in %s", a.group, domains[0], domains[1])}
	case p.alone && a.group != b.group && a.domain == b.domain:
		groups := []string{a.group, b.group}
		slices.Sort(groups)
		return []string{fmt.Sprintf("%s and %s are in %s at the same time", groups[0], groups[1], a.domain)}
	default:
		return nil
	}
}

// crowded are nodes whose pods requested more than they have at one time, in the order of their names.
func crowded(pods []traced, milliPerNode int64) (list []string) {
	type change struct {
		at    time.Time
		node  string
		milli int64
	}
	var changes []change
	for _, one := range pods {
		if one.bound.IsZero() {
			continue
		}
		node, milli := one.pod.Spec.NodeName, milliCPU(one.pod)
		changes = append(changes, change{one.bound, node, milli})
		if !one.ended.IsZero() {
			changes = append(changes, change{one.ended, node, -milli})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return int(a.milli - b.milli) // what ends makes room first
	})
	use := map[string]int64{}
	for _, c := range changes {
		if use[c.node] += c.milli; use[c.node] > milliPerNode {
			list = append(list, fmt.Sprintf("%s has %dm CPU, more than its %dm", c.node, use[c.node], milliPerNode))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
