package decide

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

const (
	// maxAsks is how often one attempt may ask for the registration of its terms.
	maxAsks = 16
)

// crossNode is what the core keeps for hard rules about pods on other nodes.
type crossNode struct {
	index *guard.Index
	// hosts counts nodes by hostname: a rule over hostnames needs guards where two share one.
	hosts map[string]int
	// asked are terms that attempts wait for, to be registered by the next transactions, until the
	// ledger's watch shows them registered. registerAt is when the next transaction may go.
	asked      map[ledger.TermID]ledger.RegisteredTerm
	registerAt time.Time
	beats      beats
}

func (x *crossNode) reset() {
	x.index = guard.NewIndex()
	x.hosts = map[string]int{}
}

func hostOf(n *state.Node) string {
	if n == nil {
		return ""
	}
	return n.Object.Labels[corev1.LabelHostname]
}

func (x *crossNode) countHosts(nodes []*state.NodeInfo) {
	x.hosts = make(map[string]int, len(nodes))
	for _, n := range nodes {
		x.hosts[hostOf(n.Node)]++
	}
}

func (x *crossNode) moveHosts(changes []state.NodeChange) {
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

// applyTerms keeps the index of registered terms.
func (c *Core) applyTerms(changes ledger.ViewChanges) error {
	ids := changes.Terms
	if changes.Reset {
		c.cross.index = guard.NewIndex()
		ids = nil
		for id := range c.shard.Ledger.Terms() {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		t, ok := c.shard.Ledger.Term(id)
		if !ok {
			c.cross.index.Drop(id)
			continue
		}
		if err := c.cross.index.Set(id, t); err != nil {
			return fmt.Errorf("scheduler: ledger watch: %w", err)
		}
		if !t.Retiring {
			delete(c.cross.asked, id)
		}
	}
	return nil
}

// mustWait says whether an attempt need not be looked at yet. Nobody decides anything with
// facts older than the registry demands, nor right behind a lost compare: the pod would go to a worse node
// than the one that another shard has just used as well.
func (c *Core) mustWait(a *attempt.Attempt) bool {
	if c.shard.Ledger.AheadOfWatch() || c.shard.View.PodProgress() < c.shard.Ledger.Registry().PodRV ||
		c.shard.Ledger.Revision() < a.Wait.Revision || a.Turn.Pending(c.shard.Now) {
		return true
	}
	return slices.ContainsFunc(a.Wait.Terms, func(id ledger.TermID) bool {
		_, usable := c.cross.index.Knows(id)
		return !usable && c.expected(id)
	})
}

// expected says whether a term is on its way into the registry.
func (c *Core) expected(id ledger.TermID) bool {
	_, asked := c.cross.asked[id]
	return asked || c.slot.Waits()
}

// concernOf gathers what concerns a pod beyond its node.
func (c *Core) concernOf(pod *state.Pod, profile *placement.Profile) (guard.Concern, error) {
	rules, err := profile.CrossRules(pod, c.shard.View.Snapshot())
	if err != nil {
		return guard.Concern{}, fmt.Errorf("rules about pods on other nodes: %w", err)
	}
	return c.cross.index.Of(pod, rules, c.shard.Namespace(pod.Namespace)), nil
}

// choose takes the best node in whose domains every pod is counted, and says what the
// placement needs there. Without a node the attempt has to wait.
func (c *Core) choose(a *attempt.Attempt, concern *guard.Concern, ranked []placement.Scored) (*state.NodeInfo, attempt.Needs) {
	if concern.None() {
		return ranked[0].Node, attempt.Needs{Registry: c.shard.Ledger.TermRegistryRevision()}
	}
	if concern.CountsBatch() && (c.attempts.Count(attempt.Reserving) > 0 || c.slot.SeeksPlace()) {
		return nil, attempt.Needs{} // a pod that counts already may be refused by plugins, or come to be only held
	}
	blocked := c.uncounted(concern.Keys())
	i := slices.IndexFunc(ranked, func(s placement.Scored) bool { return !blocked.has(s.Node) })
	if i < 0 {
		return nil, attempt.Needs{}
	}
	node := ranked[i].Node
	var found following
	if concern.Together() {
		found = c.keepers(a.Pod, node)
		if found.waits || found.first && blocked.any {
			return nil, attempt.Needs{}
		}
	}
	n, counted := c.needsAt(concern, node, found)
	if !counted {
		return nil, attempt.Needs{}
	}
	n.CountsBatch, n.Withdrawn = concern.CountsBatch(), c.life.Withdrawn
	return node, n
}

// needsAt is what a pod needs on a node; false if a guard cannot be compared yet.
func (c *Core) needsAt(concern *guard.Concern, node *state.NodeInfo, found following) (attempt.Needs, bool) {
	d := concern.At(guard.Choice{
		Labels: node.Node.Object.Labels, SharedHost: c.cross.hosts[hostOf(node.Node)] > 1, First: found.first,
	})
	n := attempt.Needs{
		Guards: d.Uses, Pins: found.pins, Registry: c.shard.Ledger.TermRegistryRevision(), Carried: d.Carried, Missing: d.Missing,
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
		if g.Revision, counted = c.shard.Ledger.Guard(g.Key); !counted {
			return attempt.Needs{}, false
		}
	}
	return n, true
}

// blocked are domains in which pods may stand that are not counted.
type blocked struct {
	// any: there are some, somewhere; all: there may be some anywhere.
	any, all bool
	domains  map[string]map[string]bool
}

func (c *Core) uncounted(keys []string) blocked {
	nodes, elsewhere := c.shard.View.Uncounted()
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
