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

// Told is what one strategy of one profile has to say about its run, for people.
type Told struct {
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	// Picked is how many pods it picked.
	Picked int `json:"picked"`
	// Says is why it picked none, and who was left out before it picked. Empty if there is
	// nothing to add to the pods that it picked.
	Says []string `json:"says,omitempty"`
	// Nodes says how the strategy sees each node, by name; only with Input.Kept, and only of
	// strategies that judge nodes.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// say adds a sentence to what the strategy tells.
func (p *pass) say(format string, args ...any) {
	p.told.Says = append(p.told.Says, fmt.Sprintf(format, args...))
}

// protects is the guard's filter for strategies that look at nobody else from the start. Who
// is left out so is told at the end.
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

// conclude says why a strategy picked nothing unless it did itself, and whom it left out.
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
	p.say("pods that were left out as protected: %s", strings.Join(parts, ", "))
}

// idle is what a strategy that picked no pod says for itself.
func idle(args policy.Args) string {
	switch a := args.(type) {
	case *policy.TooManyRestarts:
		return fmt.Sprintf("no pod it looks at has restarted %d times or more", a.Threshold)
	case *policy.PodLifeTime:
		return "no pod it looks at is as old as the policy says, or in a state that it names"
	case *policy.FailedPods:
		return "no pod it looks at has failed and is old enough"
	case *policy.Duplicates:
		return "no owner has more pods on a node than its share"
	case *policy.NodeTaints:
		return "every pod it looks at tolerates the taints of its node"
	case *policy.NodeAffinity:
		return "no pod it looks at is on a node that it does not want while another takes it"
	case *policy.InterPodAntiAffinity:
		return "no pod it looks at is beside one that its required anti-affinity speaks of"
	case *policy.TopologySpread:
		return "no constraint is violated by more than its maxSkew"
	default:
		return "no pod of the nodes to take from may go, or the others have no room for one"
	}
}

// judge tells how the strategy sees a node.
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

// extreme is the node that is farthest above thresholds, or with sign -1 farthest below, by the
// resource that counts there.
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

// sayWhyNot says why nodes of the numbers that LowNodeUtilization and HighNodeUtilization count
// give nothing to do, and reports whether that is so.
func (p *pass) sayWhyNot(all, under []*bearing, low policy.Thresholds, numberOfNodes int) bool {
	switch {
	case len(under) == 0:
		n := extreme(all, low, -1)
		p.say("no node that pods may go to is at or below the thresholds: the emptiest is %s with %s",
			n.Name, n.describe(low))
	case len(under) <= numberOfNodes:
		p.say("%d nodes are at or below the thresholds, numberOfNodes asks for more than %d", len(under), numberOfNodes)
	case len(under) == len(all):
		p.say("all %d nodes are at or below the thresholds", len(all))
	default:
		return false
	}
	return true
}

// saySpread says what the constraints of the pods come to, if there is nothing to look at.
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
		p.say("no pod it looks at has a constraint of %v, which `constraints` of the policy names; some have others",
			args.Constraints)
	case rules == 0 && nowhere:
		p.say("no node has a label of the keys of the constraints")
	case rules == 0:
		p.say("no pod it looks at has a topology spread constraint")
	}
}
