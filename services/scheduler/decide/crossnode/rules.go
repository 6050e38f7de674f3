package crossnode

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Rules determines what hard rules about pods on other nodes require of a placement: the guards that it compares,
// the bound pods that it relies on, and the terms that must be registered first. It changes nothing.
type Rules struct {
	shard    *shard.State
	attempts *attempt.Queues
	life     *lifecycle.Attempts
	slot     *txn.Slot
	// index is the index of the registered terms, by the pods that they concern.
	index *guard.Index
	// hosts counts nodes by hostname: a rule over hostnames needs guards where two nodes share one.
	hosts map[string]int
}

// NewRules returns the rules of a shard that has not read the registry of terms yet.
func NewRules(s *shard.State, life *lifecycle.Attempts, slot *txn.Slot) *Rules {
	return &Rules{
		shard: s, attempts: life.Attempts, life: life, slot: slot, index: guard.NewIndex(), hosts: map[string]int{},
	}
}

// hostOf returns the hostname label of a node, empty for none.
func hostOf(n *state.Node) string {
	if n == nil {
		return ""
	}
	return n.Object.Labels[corev1.LabelHostname]
}

// CountHosts counts the hostnames of all nodes, after the facts were rebuilt.
func (x *Rules) CountHosts(nodes []*state.NodeInfo) {
	x.hosts = make(map[string]int, len(nodes))
	for _, n := range nodes {
		x.hosts[hostOf(n.Node)]++
	}
}

// FollowNodes applies changes of nodes.
func (x *Rules) FollowNodes(changes []state.NodeChange) {
	for _, n := range changes {
		if host := hostOf(n.Before); n.Before != nil {
			if x.hosts[host]--; x.hosts[host] == 0 {
				delete(x.hosts, host)
			}
		}
		if n.After != nil {
			x.hosts[hostOf(n.After)]++
		}
	}
}

// Apply updates the index of registered terms. An error means that a term in the ledger cannot be parsed; then no
// placement can be checked against it.
func (x *Rules) Apply(changes replica.Changes) error {
	ids := changes.Terms
	if changes.Reset {
		x.index = guard.NewIndex()
		ids = nil
		for id := range x.shard.Ledger.Terms().All() {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		t, ok := x.shard.Ledger.Terms().Get(id)
		if !ok {
			x.index.Drop(id)
			continue
		}
		if err := x.index.Set(id, t); err != nil {
			return fmt.Errorf("scheduler: ledger watch: %w", err)
		}
	}
	return nil
}

// ConcernOf returns the rules and terms that concern a pod beyond its node: those that the pod carries, and those of
// other pods that select it. An error means that a selector of the pod cannot be parsed.
func (x *Rules) ConcernOf(pod *state.Pod, profile *placement.Profile) (guard.Concern, error) {
	list, err := profile.CrossRules(pod, x.shard.View.Snapshot())
	if err != nil {
		return guard.Concern{}, fmt.Errorf("rules about pods on other nodes: %w", err)
	}
	return x.index.Of(pod, list, x.shard.Namespace(pod.Namespace)), nil
}

// Choose picks the best node for which all pods in its domains are counted, and returns the needs of the placement
// there. If it returns no node, the attempt has to wait. ranked is best first and not empty. A worse node whose
// domains are counted is preferred to waiting for a better one. For a pod that no such rule concerns, the cost is
// nothing.
func (x *Rules) Choose(
	a *attempt.Attempt, concern *guard.Concern, ranked []placement.Scored,
) (*state.NodeInfo, attempt.Needs) {
	if concern.None() {
		return ranked[0].Node, attempt.Needs{Registry: x.shard.Ledger.Terms().RegistryRevision()}
	}
	if concern.CountsBatch() && (x.attempts.Count(attempt.Reserving) > 0 || x.slot.SeeksPlace()) {
		return nil, attempt.Needs{} // plugins may refuse a pod that counts already, or its place may become a mere hold
	}
	blocked := x.uncounted(concern.Keys())
	i := slices.IndexFunc(ranked, func(s placement.Scored) bool { return !blocked.has(s.Node) })
	if i < 0 {
		return nil, attempt.Needs{}
	}
	node := ranked[i].Node
	var found Following
	if concern.Together() {
		found = x.Keepers(a.Pod, node)
		if found.Waits || found.First && blocked.any {
			return nil, attempt.Needs{}
		}
	}
	n, counted := x.needsAt(concern, node, found)
	if !counted {
		return nil, attempt.Needs{}
	}
	n.CountsBatch, n.Withdrawn = concern.CountsBatch(), x.life.Withdrawn
	return node, n
}

// needsAt returns the needs of a pod on a node; false if a guard cannot be compared yet, because the view of the
// ledger has not counted it. Needs with missing terms have no guards' revisions: the attempt gets no pick from them.
func (x *Rules) needsAt(concern *guard.Concern, node *state.NodeInfo, found Following) (attempt.Needs, bool) {
	d := concern.At(guard.Choice{
		Labels: node.Node.Object.Labels, SharedHost: x.hosts[hostOf(node.Node)] > 1, First: found.First,
	})
	n := attempt.Needs{
		Guards: d.Uses, Pins: found.Pins, Registry: x.shard.Ledger.Terms().RegistryRevision(),
		Carried: d.Carried, Missing: d.Missing,
	}
	if len(n.Missing) > 0 {
		return n, true
	}
	for i := range n.Guards {
		g := &n.Guards[i]
		if !g.Compare {
			continue
		}
		var counted bool
		if g.Revision, counted = x.shard.Ledger.Terms().Guard(g.Key); !counted {
			return attempt.Needs{}, false
		}
	}
	return n, true
}

// blocked are domains in which there may be pods that are not counted. A placement by a rule over such a domain
// would rely on an incomplete count.
type blocked struct {
	// any: there is at least one such pod; all: they may be in any domain.
	any, all bool
	domains  map[string]map[string]bool
}

// uncounted returns the blocked domains of some topology keys.
func (x *Rules) uncounted(keys []string) blocked {
	nodes, elsewhere := x.shard.View.Uncounted()
	b := blocked{any: len(nodes) > 0 || elsewhere, all: elsewhere, domains: map[string]map[string]bool{}}
	for _, n := range nodes {
		for _, key := range keys {
			value, ok := n.Node.Object.Labels[key]
			if !ok {
				continue
			}
			if b.domains[key] == nil {
				b.domains[key] = map[string]bool{}
			}
			b.domains[key][value] = true
		}
	}
	return b
}

// has reports whether a node is in a blocked domain.
func (b blocked) has(n *state.NodeInfo) bool {
	if b.all {
		return true
	}
	for key, values := range b.domains {
		if value, ok := n.Node.Object.Labels[key]; ok && values[value] {
			return true
		}
	}
	return false
}

// Demands returns the needs of the pod on a node; false if they are not known yet. found.First: no pod exists that
// its required affinity could rely on, and the rules have allowed that.
func (x *Rules) Demands(concern *guard.Concern, node *state.NodeInfo, found Following) (attempt.Needs, bool) {
	if concern.None() {
		return attempt.Needs{}, true
	}
	blocked := x.uncounted(concern.Keys())
	found.First = found.First && concern.Together()
	if blocked.has(node) || found.First && blocked.any {
		return attempt.Needs{}, false
	}
	return x.needsAt(concern, node, found)
}
