package crossnode

import (
	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// Following is how a pod's required affinity is satisfied on a node.
type Following struct {
	// Pins are the bound pods that the placement relies on.
	Pins []attempt.Pin
	// First: there is no pod to follow, and the rules allowed that.
	First bool
	// Waits: the pod that it would follow is only reserved, so the attempt waits for the bind. A reservation may be
	// taken back; a bound pod can at most be deleted, which can happen to any pod.
	Waits bool
}

// Keepers finds the pods that satisfy the required affinity of a pod on a node that passed the rules: a bound pod in
// each term's domain, on the node itself if possible. One pod on the node serves for all terms, since it is in every
// domain of the node. Of several domains some may have a keeper and others none; then the attempt waits, unless none
// has one.
func (x *Rules) Keepers(pod *state.Pod, node *state.NodeInfo) Following {
	terms := pod.Terms.RequiredAffinity
	m := x.MatcherOf(terms)
	if p, ok := x.keeperOn(m, node, nil); ok {
		return Following{Pins: []attempt.Pin{p}}
	}
	var found Following
	missing := 0
	for i := range terms {
		key := terms[i].TopologyKey
		domain := node.Node.Object.Labels[key]
		p, ok, reserved := x.keeperIn(m, pod.UID, key, domain)
		switch {
		case ok:
			found.Pins = append(found.Pins, p)
		case reserved:
			found.Waits = true
		default:
			missing++
		}
	}
	found.First = missing == len(terms)
	found.Waits = found.Waits || missing > 0 && !found.First
	return found
}

// keeperIn looks for a keeper in a domain. The starting node depends on the pod, so that pods do not all rely on the
// same keeper and conflict over its document.
func (x *Rules) keeperIn(m *Matcher, podUID, key, domain string) (found attempt.Pin, ok, reserved bool) {
	// Of all nodes, those of the domain are examined until one has a keeper, so that the cost is that of the domain
	// at most.
	nodes := x.shard.View.Nodes()
	start := int(xxhash.Sum64String(podUID) % uint64(len(nodes)))
	for i := range nodes {
		n := nodes[(start+i)%len(nodes)]
		if value, in := n.Node.Object.Labels[key]; !in || value != domain {
			continue
		}
		if found, ok = x.keeperOn(m, n, &reserved); ok {
			return found, true, reserved
		}
	}
	return attempt.Pin{}, false, reserved
}

// keeperOn looks for a keeper on one node; reserved is set if there is one that is not bound, or that a plan has
// claimed as a victim. A placement cannot rely on a victim: the ledger refuses that.
func (x *Rules) keeperOn(m *Matcher, n *state.NodeInfo, reserved *bool) (attempt.Pin, bool) {
	for p := range n.Pods() {
		if !m.Matches(p) {
			continue
		}
		doc, _ := x.shard.Ledger.Doc(n.Node.UID)
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

// Matcher finds the pods that all of some terms select. It evaluates each kind of pod once: pods of one kind have
// the same namespace and labels. It is valid for one decision, as labels of namespaces may change.
type Matcher struct {
	shard *shard.State
	terms []state.AffinityTerm
	known map[*state.PodClass]bool
}

// MatcherOf returns a matcher of affinity terms.
func (x *Rules) MatcherOf(terms []state.AffinityTerm) *Matcher {
	return &Matcher{shard: x.shard, terms: terms, known: map[*state.PodClass]bool{}}
}

// Matches reports whether all terms select the pod.
func (m *Matcher) Matches(p *state.Pod) bool {
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

// selects reports whether all terms select pods of a kind.
func (m *Matcher) selects(k *state.PodClass) bool {
	for i := range m.terms {
		t := &m.terms[i]
		if !t.MustMatch(k.Namespace, m.shard.Namespace(k.Namespace).Labels, k.Labels) {
			return false
		}
	}
	return true
}
