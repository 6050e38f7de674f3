package preempt

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/state"
)

// crossNode also tries plans with victims on other nodes: pods in one of the node's domains because of which a
// rule keeps the pod off the node. It runs last, so that plans with victims on a single node are preferred.
// Upstream has no counterpart: there such a pod waits until the pods elsewhere end by themselves.
//
// Example: a pod must not be in a zone with pods app=web, and a less important pod of that label runs on another
// node of each zone. No eviction on one node helps; evicting the web pod of a zone admits the pod to every node
// there.
func (x *Search) crossNode(nodes []*state.NodeInfo) {
	if x.Rules.SameNodeOnly || len(x.What.Counters) == 0 {
		return
	}
	b := &blockers{search: x, known: map[string]blocking{}}
	for _, n := range nodes[:min(len(nodes), x.Rules.MaxTargets)] {
		pods, _ := x.potentialVictims(n)
		elsewhere, ok := b.of(n, pods)
		if !ok || len(elsewhere) == 0 {
			continue
		}
		// A plan has to fit into one transaction of the ledger.
		if len(elsewhere) > x.Rules.MaxBlockers {
			x.tooManyBlockers++
			continue
		}
		a := &nodeTrial{WhatIf: x.What, search: x, target: n}
		if plan, ok := a.selectWithinBudgets(slices.Concat(pods, elsewhere)); ok {
			x.offer(plan)
		}
	}
}

// blockers finds the pods on other nodes that keep a pod off a node.
type blockers struct {
	search *Search
	// known caches the results by rule and domain.
	known map[string]blocking
}

// blocking holds the pods of one domain that one rule refers to, by importance.
type blocking struct {
	pods []placement.PlacedPod
	// hasProtected reports whether some of them must not be evicted; those are not among pods.
	hasProtected bool
}

// of returns the pods on other nodes that at least have to be evicted in addition to all pods on the node; false
// if even that would not be enough. Which of the node's own pods have to go is then decided by selectVictims.
func (b *blockers) of(n *state.NodeInfo, pods []placement.PlacedPod) ([]placement.PlacedPod, bool) {
	what := b.search.What
	for _, s := range pods {
		what.Remove(s)
	}
	defer what.Reset()
	c := &collector{target: n, found: map[string]bool{}}
	if f := what.Affinity(); f != nil && !b.repelling(f, c) {
		return nil, false
	}
	if f := what.Spread(); f != nil && !b.overSkew(f, c) {
		return nil, false
	}
	return c.list, true
}

// collector gathers pods on nodes other than the target, each once.
type collector struct {
	target *state.NodeInfo
	list   []placement.PlacedPod
	found  map[string]bool
}

// add adds pods that are not on the target.
func (c *collector) add(pods []placement.PlacedPod) {
	for _, s := range pods {
		if s.Node != c.target && !c.found[s.Pod.UID] {
			c.found[s.Pod.UID] = true
			c.list = append(c.list, s)
		}
	}
}

// repelling adds every pod that anti-affinity refers to, be it the pod's own terms or those of other pods.
func (b *blockers) repelling(f *podaffinity.Filter, c *collector) bool {
	nodeLabels := c.target.Node.Object.Labels
	if !f.Attracts(nodeLabels) {
		return false
	}
	for i := range f.AntiAffinity {
		t := &f.AntiAffinity[i]
		if !f.Repelling.Has(t.TopologyKey, nodeLabels) {
			continue
		}
		found := b.in(fmt.Sprint("own ", i), t.TopologyKey, nodeLabels, func(_ *state.NodeInfo, p *state.Pod) bool {
			return t.MatchesPod(p)
		})
		if found.hasProtected {
			return false
		}
		c.add(found.pods)
	}
	for key := range f.RepelledBy {
		if !f.RepelledBy.Has(key, nodeLabels) {
			continue
		}
		found := b.in("theirs", key, nodeLabels, func(_ *state.NodeInfo, p *state.Pod) bool { return repelsBy(f, key, p) })
		if found.hasProtected {
			return false
		}
		c.add(found.pods)
	}
	return true
}

// repelsBy reports whether a pod has required anti-affinity to the filter's pod by a topology key.
func repelsBy(f *podaffinity.Filter, key string, p *state.Pod) bool {
	if p.Terms == nil {
		return false
	}
	return slices.ContainsFunc(p.Terms.RequiredAntiAffinity, func(t state.AffinityTerm) bool {
		return t.TopologyKey == key && f.MatchedBy(&t)
	})
}

// overSkew adds the excess pods of the node's domains, the least important ones.
func (b *blockers) overSkew(f *spread.Filter, c *collector) bool {
	nodeLabels := c.target.Node.Object.Labels
	for i := range f.Constraints {
		rule, s := &f.Constraints[i], &f.Surveys[i]
		value, ok := nodeLabels[rule.Key]
		if !ok {
			return false
		}
		over := s.Over(rule, value)
		if over <= 0 {
			continue
		}
		found := b.in(fmt.Sprint("spread ", i), rule.Key, nodeLabels, func(n *state.NodeInfo, p *state.Pod) bool {
			return f.Counts(rule, p) && spread.HasKeys(n.Node.Object.Labels, f.Constraints) && f.Includes(rule, n.Node)
		})
		onTarget := func(s placement.PlacedPod) bool { return s.Node == c.target }
		elsewhere := slices.DeleteFunc(slices.Clone(found.pods), onTarget)
		if len(elsewhere) < over {
			return false
		}
		c.add(elsewhere[len(elsewhere)-over:])
	}
	return true
}

// in returns the pods in the node's domain of a key that a rule refers to. It looks at all nodes, once per rule
// and domain.
func (b *blockers) in(
	rule, key string, nodeLabels map[string]string, named func(*state.NodeInfo, *state.Pod) bool,
) blocking {
	id := rule + "\x00" + key + "\x00" + nodeLabels[key]
	if found, ok := b.known[id]; ok {
		return found
	}
	var found blocking
	for _, n := range b.search.Nodes {
		if value, ok := n.Node.Object.Labels[key]; !ok || value != nodeLabels[key] {
			continue
		}
		for p := range n.Pods() {
			switch {
			case !named(n, p):
			case b.search.evictable(p) && !b.search.budgetProtects(p):
				found.pods = append(found.pods, PlacedPodOf(n, p))
			default:
				found.hasProtected = true
			}
		}
	}
	slices.SortFunc(found.pods, ByImportance)
	b.known[id] = found
	return found
}
