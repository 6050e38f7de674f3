package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// concluded returns the answer when a plan has been found.
func (x *preemption) concluded() Preemption {
	r := Preemption{Node: x.best.node, Cost: x.best.cost, Waiting: true}
	uses := map[int]int32{}
	for _, s := range x.best.victims {
		v := Victim{Node: s.node, Pod: s.pod, Leaving: s.pod.Deleting, Reserved: s.pod.NodeName == ""}
		r.Waiting = r.Waiting && v.Leaving
		for _, i := range x.Budgets.charged(s.pod) {
			v.Budgets = append(v.Budgets, &x.Budgets.all[i])
			uses[i]++
		}
		r.Victims = append(r.Victims, v)
		x.what.remove(s)
	}
	for i := range x.budgets() {
		if uses[i] > 0 {
			r.Budgets = append(r.Budgets, BudgetUse{Budget: &x.Budgets.all[i], Disruptions: uses[i]})
		}
	}
	r.Keepers = x.keepers()
	x.what.reset()
	return r
}

func (x *preemption) budgets() []Budget {
	if x.Budgets == nil {
		return nil
	}
	return x.Budgets.all
}

// keepers finds, for every term of the required affinity, a pod that satisfies it for the chosen node after the
// victims are gone.
func (x *preemption) keepers() []Keeper {
	f := x.what.affinity()
	if f == nil || len(f.affinity) == 0 {
		return nil
	}
	if k, ok := x.keeperOn(f, x.best.node); ok {
		return []Keeper{k}
	}
	var list []Keeper
	for i := range f.affinity {
		key := f.affinity[i].TopologyKey
		domain, ok := x.best.node.Node.Object.Labels[key]
		if !ok {
			continue
		}
		for _, n := range x.Nodes {
			if value, in := n.Node.Object.Labels[key]; !in || value != domain {
				continue
			}
			if k, ok := x.keeperOn(f, n); ok {
				list = append(list, k)
				break
			}
		}
	}
	return list
}

// keeperOn finds the most important matching pod on one node, preferring bound pods to reserved ones.
func (x *preemption) keeperOn(f *podAffinityFilter, n *state.NodeInfo) (Keeper, bool) {
	var best seat
	for p := range x.what.at(n).Pods() {
		if !matchesAll(f.affinity, p) {
			continue
		}
		s := seatOf(n, p)
		bound, wasBound := p.NodeName != "", best.pod != nil && best.pod.NodeName != ""
		if best.pod == nil || bound && !wasBound || bound == wasBound && byImportance(s, best) < 0 {
			best = s
		}
	}
	return Keeper{Node: n, Pod: best.pod}, best.pod != nil
}

// inVain returns the answer when no plan has been found. Message is in upstream's grammar: nodes that were not
// worth trying have a reason of their own.
func (x *preemption) inVain(examined, total int) Preemption {
	if rest := total - examined; rest > 0 {
		x.reasons[notHelpful] += int32(rest)
	}
	message := prefix + sentence(total, x.reasons)
	return Preemption{
		Examined: examined, Message: message, Advice: x.advice(examined), Kept: x.reasons[keptByBudgets] > 0,
	}
}

// advice suggests remedies to the user.
func (x *preemption) advice(examined int) []string {
	var list []string
	examined -= x.opposed
	if examined > 0 && int(x.reasons[noVictims])-x.deserted == examined {
		list = append(list, fmt.Sprintf(
			"Preemption cannot help: on the %d node(s) where pods are in the way, "+
				"all are as important as this one (priority %d).",
			examined, x.Pod.Priority))
	}
	if k := x.needed; k.pod != nil {
		terms := x.Pod.Terms.RequiredAffinity
		keys := make([]string, len(terms))
		for i := range terms {
			keys[i] = fmt.Sprintf("%q by %s", terms[i].Selector, terms[i].TopologyKey)
		}
		slices.Sort(keys)
		list = append(list, fmt.Sprintf(
			"Required affinity (%s) needs pod %s on node %s, which has priority %d and would have to go for this one "+
				"(priority %d): raise its priority, or make room on its node.",
			strings.Join(slices.Compact(keys), ", "), k.pod.Key(), k.node.Node.Name, k.pod.Priority, x.Pod.Priority))
	}
	if x.crowded > 0 {
		list = append(list, fmt.Sprintf(
			"On %d node(s), more than %d pods on other nodes would have to go as well (preemption.crossNode.maxBlockers).",
			x.crowded, x.rules.MaxBlockers))
	}
	if n := x.reasons[keptByBudgets]; n > 0 {
		list = append(list, fmt.Sprintf("On %d node(s), the pods that would have to go are kept by disruption budgets.", n))
	}
	return list
}
