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

// Told is the report of one strategy of one profile about its run, for people.
type Told struct {
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	// Picked is how many pods it picked.
	Picked int `json:"picked"`
	// Says explains why it picked none, and which pods were left out before it picked. It is empty if there is
	// nothing to add to the picked pods.
	Says []string `json:"says,omitempty"`
	// Nodes holds the strategy's judgement of each node, by name; only with Input.Kept, and only for strategies
	// that judge nodes.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// say adds a sentence to the strategy's report.
func (p *pass) say(format string, args ...any) {
	p.told.Says = append(p.told.Says, fmt.Sprintf(format, args...))
}

// protects is the guard's filter for strategies that exclude protected pods from the start. The excluded pods are
// reported at the end.
func (p *pass) protects(pod *Pod) bool {
	return p.leaveOut(p.guard.filter(pod))
}

func (p *pass) leaveOut(r Refusal) bool {
	if r == "" {
		return false
	}
	if p.leftOut == nil {
		p.leftOut = map[Refusal]int{}
	}
	p.leftOut[r]++
	return true
}

// conclude reports why a strategy picked nothing, unless the strategy did so itself, and which pods it left out.
func (p *pass) conclude(args policy.Args) {
	if p.told.Picked == 0 && len(p.told.Says) == 0 {
		p.say("%s", idle(args))
	}
	p.sayOverspent()
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
	p.say("pods excluded as protected: %s", strings.Join(parts, ", "))
}

// idle returns the report of a strategy that picked no pod.
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

// extreme returns the node that is farthest above the thresholds, or with sign -1 farthest below, by the resource
// that is decisive there.
func extreme(all []*bearing, t policy.Thresholds, sign float64) *bearing {
	distance := func(n *bearing) float64 {
		most := 0.0
		for i, name := range slices.Sorted(maps.Keys(t)) {
			if d := n.percent[corev1.ResourceName(name)] - t[name]; i == 0 || d > most {
				most = d
			}
		}
		return sign * most
	}
	return slices.MaxFunc(all, func(a, b *bearing) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(b.Name, a.Name))
	})
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

// saySpread reports on the constraints of the pods, if there are none to evaluate.
func (p *pass) saySpread(namespaces map[string]*spreadNamespace, args *policy.TopologySpread) {
	rules := 0
	others := false
	nowhere := false
	for _, ns := range namespaces {
		rules += len(ns.rules)
		others, nowhere = others || ns.others, nowhere || ns.nowhere
	}
	switch {
	case rules == 0 && others:
		p.say("no pod considered has a constraint of %v, which `constraints` of the policy requires; some have others",
			args.Constraints)
	case rules == 0 && nowhere:
		p.say("no node has the topology labels of the constraints")
	case rules == 0:
		p.say("no pod considered has a topology spread constraint")
	}
}
