package preempt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Concluded returns the answer when a plan has been found: the victims with the budgets that they are charged to,
// the sum per budget, and the keepers. Keepers are looked for after the victims have been removed: a victim
// cannot be one.
func (x *Search) Concluded() Result {
	r := Result{Node: x.Best.node, Cost: x.Best.Cost, Waiting: true}
	uses := map[int]int32{}
	for _, s := range x.Best.victims {
		v := Victim{Node: s.Node, Pod: s.Pod, Leaving: s.Pod.Deleting, Reserved: s.Pod.NodeName == ""}
		r.Waiting = r.Waiting && v.Leaving
		for _, i := range x.Budgets.charged(s.Pod) {
			v.Budgets = append(v.Budgets, &x.Budgets.all[i])
			uses[i]++
		}
		r.Victims = append(r.Victims, v)
		x.What.Remove(s)
	}
	for i := range x.budgets() {
		if uses[i] > 0 {
			r.Budgets = append(r.Budgets, BudgetUse{Budget: &x.Budgets.all[i], Disruptions: uses[i]})
		}
	}
	r.Keepers = x.keepers()
	x.What.Reset()
	return r
}

// budgets returns all budgets; nil for none.
func (x *Search) budgets() []Budget {
	if x.Budgets == nil {
		return nil
	}
	return x.Budgets.all
}

// keepers finds, for every term of the required affinity, a pod that satisfies it for the chosen node after the
// victims are gone.
func (x *Search) keepers() []Keeper {
	f := x.What.Affinity()
	if f == nil || len(f.Affinity) == 0 {
		return nil
	}
	if k, ok := x.keeperOn(f, x.Best.node); ok {
		return []Keeper{k}
	}
	var list []Keeper
	for i := range f.Affinity {
		key := f.Affinity[i].TopologyKey
		domain, ok := x.Best.node.Node.Object.Labels[key]
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
func (x *Search) keeperOn(f *podaffinity.Filter, n *state.NodeInfo) (Keeper, bool) {
	var best placement.PlacedPod
	for p := range x.What.At(n).Pods() {
		if !podaffinity.MatchesAll(f.Affinity, p) {
			continue
		}
		s := PlacedPodOf(n, p)
		bound, wasBound := p.NodeName != "", best.Pod != nil && best.Pod.NodeName != ""
		if best.Pod == nil || bound && !wasBound || bound == wasBound && ByImportance(s, best) < 0 {
			best = s
		}
	}
	return Keeper{Node: n, Pod: best.Pod}, best.Pod != nil
}

// InVain returns the answer when no plan has been found. Message is in upstream's grammar: nodes that were not
// worth trying have a reason of their own.
func (x *Search) InVain(examined, total int) Result {
	if rest := total - examined; rest > 0 {
		x.Reasons[notHelpful] += int32(rest)
	}
	message := MessagePrefix + placement.Sentence(total, x.Reasons)
	return Result{
		Examined: examined, Message: message, Advice: x.advice(examined), BlockedByBudgets: x.Reasons[keptByBudgets] > 0,
	}
}

// advice suggests remedies to the user: sentences for the pod's events and for explanations, in addition to
// upstream's.
func (x *Search) advice(examined int) []string {
	var list []string
	examined -= x.rejectedByExtenders
	if examined > 0 && int(x.Reasons[noVictims])-x.withoutVictims == examined {
		list = append(list, fmt.Sprintf(
			"Preemption cannot help: on the %d node(s) where pods are in the way, "+
				"all are as important as this one (priority %d).",
			examined, x.Pod.Priority))
	}
	if k := x.needed; k.Pod != nil {
		terms := x.Pod.Terms.RequiredAffinity
		keys := make([]string, len(terms))
		for i := range terms {
			keys[i] = fmt.Sprintf("%q by %s", terms[i].Selector, terms[i].TopologyKey)
		}
		slices.Sort(keys)
		list = append(list, fmt.Sprintf(
			"Required affinity (%s) needs pod %s on node %s, which has priority %d and would have to go for this one "+
				"(priority %d): raise its priority, or make room on its node.",
			strings.Join(slices.Compact(keys), ", "), k.Pod.Key(), k.Node.Node.Name, k.Pod.Priority, x.Pod.Priority))
	}
	if x.tooManyBlockers > 0 {
		list = append(list, fmt.Sprintf(
			"On %d node(s), more than %d pods on other nodes would have to go as well (preemption.crossNode.maxBlockers).",
			x.tooManyBlockers, x.Rules.MaxBlockers))
	}
	if n := x.Reasons[keptByBudgets]; n > 0 {
		list = append(list, fmt.Sprintf("On %d node(s), the pods that would have to go are kept by disruption budgets.", n))
	}
	return list
}
