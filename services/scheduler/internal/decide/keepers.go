package decide

import (
	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// following is how a pod's required affinity is satisfied on a node.
type following struct {
	// pins are the bound pods it relies on.
	pins []attempt.Pin
	// first: there is nothing to follow, and the rules allowed that.
	first bool
	// waits: what it would follow is only reserved. A reservation may be taken back, a bound
	// pod may at most be deleted, and so may any pod; so the attempt waits for the bind.
	waits bool
}

// keepers finds the pods that satisfy the required affinity of a pod on a node that passed
// the rules: one that is bound in each term's domain, on the node itself if possible.
func (c *Core) keepers(pod *state.Pod, node *state.NodeInfo) following {
	terms := pod.Terms.RequiredAffinity
	m := c.matcherOf(terms)
	if p, ok := c.keeperOn(m, node, nil); ok {
		return following{pins: []attempt.Pin{p}}
	}
	var found following
	missing := 0
	for i := range terms {
		key := terms[i].TopologyKey
		domain := node.Node.Object.Labels[key]
		p, ok, reserved := c.keeperIn(m, pod.UID, key, domain)
		switch {
		case ok:
			found.pins = append(found.pins, p)
		case reserved:
			found.waits = true
		default:
			missing++
		}
	}
	found.first = missing == len(terms)
	found.waits = found.waits || missing > 0 && !found.first
	return found
}

// keeperIn looks for a keeper in a domain. Where it begins depends on the pod, so that not
// all pods rely on one and meet in its document.
func (c *Core) keeperIn(m *matcher, podUID, key, domain string) (found attempt.Pin, ok, reserved bool) {
	nodes := c.shard.View.Nodes()
	start := int(xxhash.Sum64String(podUID) % uint64(len(nodes)))
	for i := range nodes {
		n := nodes[(start+i)%len(nodes)]
		if value, in := n.Node.Object.Labels[key]; !in || value != domain {
			continue
		}
		if found, ok = c.keeperOn(m, n, &reserved); ok {
			return found, true, reserved
		}
	}
	return attempt.Pin{}, false, reserved
}

// keeperOn looks for a keeper on one node; reserved is set if there is one that is not bound,
// or that somebody has claimed as a victim.
func (c *Core) keeperOn(m *matcher, n *state.NodeInfo, reserved *bool) (attempt.Pin, bool) {
	for p := range n.Pods() {
		if !m.matches(p) {
			continue
		}
		doc, _ := c.shard.Ledger.Doc(n.Node.UID)
		if p.NodeName != "" && !doc.Claimed(p.UID) {
			return attempt.Pin{
				NodeUID: n.Node.UID, NodeName: n.Node.Name,
				Keeper: ledger.Entry{PodUID: p.UID, Namespace: p.Namespace, Name: p.Name},
			}, true
		}
		if reserved != nil {
			*reserved = true
		}
	}
	return attempt.Pin{}, false
}

// matcher tells pods that all of some terms select. It asks kinds, once each.
type matcher struct {
	core  *Core
	terms []state.AffinityTerm
	known map[*state.Kind]bool
}

func (c *Core) matcherOf(terms []state.AffinityTerm) *matcher {
	return &matcher{core: c, terms: terms, known: map[*state.Kind]bool{}}
}

func (m *matcher) matches(p *state.Pod) bool {
	if p.Kind == nil {
		return false
	}
	is, known := m.known[p.Kind]
	if !known {
		is = m.selects(p.Kind)
		m.known[p.Kind] = is
	}
	return is
}

func (m *matcher) selects(k *state.Kind) bool {
	for i := range m.terms {
		t := &m.terms[i]
		if !t.MustMatch(k.Namespace, m.core.shard.Namespace(k.Namespace).Labels, k.Labels) {
			return false
		}
	}
	return true
}
