package placement

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// crossNode also tries plans with victims on other nodes: pods in one of the node's domains because of which a rule
// keeps the pod off the node. It runs last, so that plans with victims on a single node are preferred.
func (x *preemption) crossNode(nodes []*state.NodeInfo) {
	if x.rules.SameNodeOnly || len(x.what.counters) == 0 {
		return
	}
	b := &blockers{search: x, known: map[string]blocking{}}
	for _, n := range nodes[:min(len(nodes), x.rules.MaxTargets)] {
		seats, _ := x.seatsOn(n)
		elsewhere, ok := b.of(n, seats)
		if !ok || len(elsewhere) == 0 {
			continue
		}
		if len(elsewhere) > x.rules.MaxBlockers {
			x.crowded++
			continue
		}
		a := &attempt{whatIf: x.what, search: x, target: n}
		if plan, ok := a.makeRoom(slices.Concat(seats, elsewhere)); ok {
			x.offer(plan)
		}
	}
}

// blockers finds the pods on other nodes that keep a pod off a node.
type blockers struct {
	search *preemption
	// known caches the results by rule and domain.
	known map[string]blocking
}

// blocking holds the pods of one domain that one rule refers to, by importance.
type blocking struct {
	seats []seat
	// stuck reports whether some of them must not be evicted; those are not among seats.
	stuck bool
}

// of returns the pods on other nodes that at least have to be evicted in addition to all seats on the node; false
// if even that would not be enough.
func (b *blockers) of(n *state.NodeInfo, seats []seat) ([]seat, bool) {
	what := b.search.what
	for _, s := range seats {
		what.remove(s)
	}
	defer what.reset()
	c := &collector{target: n, found: map[string]bool{}}
	if f := what.affinity(); f != nil && !b.repelling(f, c) {
		return nil, false
	}
	if f := what.spread(); f != nil && !b.overSkew(f, c) {
		return nil, false
	}
	return c.list, true
}

// collector gathers pods on nodes other than the target, each once.
type collector struct {
	target *state.NodeInfo
	list   []seat
	found  map[string]bool
}

func (c *collector) add(seats []seat) {
	for _, s := range seats {
		if s.node != c.target && !c.found[s.pod.UID] {
			c.found[s.pod.UID] = true
			c.list = append(c.list, s)
		}
	}
}

// repelling adds every pod that anti-affinity refers to, be it the pod's own terms or those of other pods.
func (b *blockers) repelling(f *podAffinityFilter, c *collector) bool {
	nodeLabels := c.target.Node.Object.Labels
	if !f.attracts(nodeLabels) {
		return false
	}
	for i := range f.antiAffinity {
		t := &f.antiAffinity[i]
		if !f.repelling.has(t.TopologyKey, nodeLabels) {
			continue
		}
		found := b.in(fmt.Sprint("own ", i), t.TopologyKey, nodeLabels, func(_ *state.NodeInfo, p *state.Pod) bool {
			return t.matches(p)
		})
		if found.stuck {
			return false
		}
		c.add(found.seats)
	}
	for key := range f.repelledBy {
		if !f.repelledBy.has(key, nodeLabels) {
			continue
		}
		found := b.in("theirs", key, nodeLabels, func(_ *state.NodeInfo, p *state.Pod) bool { return repelsBy(f, key, p) })
		if found.stuck {
			return false
		}
		c.add(found.seats)
	}
	return true
}

// repelsBy reports whether a pod has required anti-affinity to the filter's pod by a topology key.
func repelsBy(f *podAffinityFilter, key string, p *state.Pod) bool {
	if p.Terms == nil {
		return false
	}
	return slices.ContainsFunc(p.Terms.RequiredAntiAffinity, func(t state.AffinityTerm) bool {
		return t.TopologyKey == key && f.matchedBy(&t)
	})
}

// overSkew adds the excess pods of the node's domains, the least important ones.
func (b *blockers) overSkew(f *spreadFilter, c *collector) bool {
	nodeLabels := c.target.Node.Object.Labels
	for i := range f.constraints {
		rule, s := &f.constraints[i], &f.surveys[i]
		value, ok := nodeLabels[rule.key]
		if !ok {
			return false
		}
		over := s.over(rule, value)
		if over <= 0 {
			continue
		}
		found := b.in(fmt.Sprint("spread ", i), rule.key, nodeLabels, func(n *state.NodeInfo, p *state.Pod) bool {
			return f.counts(rule, p) && hasKeys(n.Node.Object.Labels, f.constraints) && f.includes(rule, n.Node)
		})
		elsewhere := slices.DeleteFunc(slices.Clone(found.seats), func(s seat) bool { return s.node == c.target })
		if len(elsewhere) < over {
			return false
		}
		c.add(elsewhere[len(elsewhere)-over:])
	}
	return true
}

// in returns the pods in the node's domain of a key that a rule refers to.
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
			case b.search.mayGo(p) && !b.search.isKept(p):
				found.seats = append(found.seats, seatOf(n, p))
			default:
				found.stuck = true
			}
		}
	}
	slices.SortFunc(found.seats, byImportance)
	b.known[id] = found
	return found
}
