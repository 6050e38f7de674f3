package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// noteOverspent names the namespaces whose rules were not all evaluated.
func (p *pass) noteOverspent() {
	var names []string
	for name, a := range p.view.budget.accounts {
		if a.remaining < 0 {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		p.note("rules of some pods were not evaluated because this would take too long, in namespaces: %s",
			strings.Join(names, ", "))
	}
}

// conclude reports why a strategy picked nothing, unless the strategy did so itself, and which pods it left out,
// the most frequent reason first. It is called only for strategies that did not fail.
func (p *pass) conclude(args policy.Args) {
	if p.report.Picked == 0 && len(p.report.Says) == 0 {
		p.note("%s", idle(args))
	}
	p.noteOverspent()
	if len(p.leftOut) == 0 {
		return
	}
	reasons := slices.SortedFunc(maps.Keys(p.leftOut), func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(p.leftOut[b], p.leftOut[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, r := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", p.leftOut[r], r))
	}
	p.note("pods excluded as protected: %s", strings.Join(parts, ", "))
}

// idle returns the report of a strategy that picked no pod, in terms of its arguments: operators ask this when a
// strategy that they enabled does nothing.
func idle(args policy.Args) string {
	switch a := args.(type) {
	case *policy.TooManyRestarts:
		return fmt.Sprintf("no pod considered has restarted %d times or more", a.Threshold)
	case *policy.PodLifeTime:
		return "no pod considered has the age or state that the policy requires"
	case *policy.FailedPods:
		return "no pod considered has failed and is old enough"
	case *policy.Duplicates:
		return "no owner has more pods on a node than its share"
	case *policy.NodeTaints:
		return "all pods considered tolerate the taints of their nodes"
	case *policy.NodeAffinity:
		return "no pod considered is on a node against its node affinity while another node fits"
	case *policy.InterPodAntiAffinity:
		return "no pod considered violates a required anti-affinity"
	case *policy.TopologySpread:
		return "no constraint is violated by more than its maxSkew"
	default:
		return "no pod of the source nodes may be evicted, or no other node has room for one"
	}
}
