package decide

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// maxGuardLosses is how many races for a guard one attempt may lose before it ends as
	// failed. Each was won by another placement in the same domain, so they say that others
	// get on, not that something is wrong.
	maxGuardLosses = 64
	// maxAsks is how often one attempt may ask for the registration of its terms.
	maxAsks = 16
	// termsPerTxn is how many terms one transaction registers or retires.
	termsPerTxn = 32
)

// crossNode is what the core keeps for hard rules about pods on other nodes.
type crossNode struct {
	index *guard.Index
	// hosts counts nodes by hostname: a rule over hostnames needs guards where two share one.
	hosts map[string]int
	// asked are terms that attempts wait for, to be registered by the next transaction.
	asked map[ledger.TermID]ledger.Term
	// hold is the revision that the ledger's watch must have reached before the next
	// transaction: one that compares an older registry would fail.
	hold int64
	// withdrawn counts staged pods that were taken back without a reservation.
	withdrawn uint64
}

// needs is what a pick needs besides the node's document.
type needs struct {
	guards []ledger.GuardUse
	pins   []pin
	// countsBatch and withdrawn: the pick is right only if no staged pod has been taken back
	// since (see ledger.Needs).
	countsBatch bool
	withdrawn   uint64
	// registry is the revision of the registry that the pick was decided by.
	registry int64
}

// pin is a bound pod that a pick relies on.
type pin struct {
	nodeUID, nodeName string
	keeper            ledger.Entry
}

// wait is what a deferred attempt waits for; there is no point in looking at it before.
type wait struct {
	// revision of the ledger's watch.
	revision int64
	// terms that must be usable.
	terms []ledger.TermID
	// asks and losses count what it has waited for so far.
	asks, losses int
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
		for id := range c.ledger.Terms() {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		t, ok := c.ledger.Term(id)
		if !ok {
			c.cross.index.Drop(id)
			continue
		}
		if err := c.cross.index.Set(id, t); err != nil {
			return fmt.Errorf("scheduler: ledger watch: %w", err)
		}
	}
	return nil
}

// mustWait says whether an attempt need not be looked at yet. Nobody decides anything with
// facts older than the registry demands.
func (c *Core) mustWait(a *attempt) bool {
	if c.view.PodProgress() < c.ledger.Registry().PodRV || c.ledger.Revision() < a.wait.revision ||
		a.turn.pending(c.now) {
		return true
	}
	return slices.ContainsFunc(a.wait.terms, func(id ledger.TermID) bool {
		_, usable := c.cross.index.Knows(id)
		return !usable && c.expected(id)
	})
}

// expected says whether a term is on its way into the registry.
func (c *Core) expected(id ledger.TermID) bool {
	_, asked := c.cross.asked[id]
	return asked || c.ledger.Revision() < c.cross.hold || c.flight != nil && slices.Contains(c.flight.terms, id)
}

// concernOf gathers what concerns a pod beyond its node.
func (c *Core) concernOf(pod *state.Pod, profile *placement.Profile) (guard.Concern, error) {
	rules, err := profile.CrossRules(pod, c.view.Snapshot())
	if err != nil {
		return guard.Concern{}, fmt.Errorf("rules about pods on other nodes: %w", err)
	}
	return c.cross.index.Of(pod, rules, c.namespace(pod.Namespace)), nil
}

func (c *Core) namespace(name string) guard.Namespace {
	o, ok := c.view.Snapshot().ObjectByName(events.KindNamespace, "", name)
	if !ok {
		return guard.Namespace{}
	}
	return guard.Namespace{Labels: o.API.GetLabels(), Known: true}
}

// choose takes the best node in whose domains every pod is counted, and says what the
// placement needs there. Without a node the attempt has to wait; an error ends it.
func (c *Core) choose(
	a *attempt, concern *guard.Concern, ranked []placement.Scored,
) (*state.NodeInfo, needs, error) {
	if concern.None() {
		return ranked[0].Node, needs{registry: c.ledger.TermRegistryRevision()}, nil
	}
	blocked := c.uncounted(concern.Keys())
	i := slices.IndexFunc(ranked, func(s placement.Scored) bool { return !blocked.has(s.Node) })
	if i < 0 {
		return nil, needs{}, nil
	}
	node := ranked[i].Node
	n := needs{
		countsBatch: concern.CountsBatch(), withdrawn: c.cross.withdrawn,
		registry: c.ledger.TermRegistryRevision(),
	}
	to := guard.Choice{Labels: node.Node.Object.Labels, SharedHost: c.cross.hosts[hostOf(node.Node)] > 1}
	if concern.Together() {
		found := c.keepers(a.pod, node)
		if found.waits || found.first && blocked.any {
			return nil, needs{}, nil
		}
		n.pins, to.First = found.pins, found.first
	}
	uses, missing := concern.At(to)
	if len(missing) > 0 {
		return nil, needs{}, c.ask(a, missing)
	}
	for i := range uses {
		if !uses[i].Compare {
			continue
		}
		var counted bool
		if uses[i].Revision, counted = c.ledger.Guard(uses[i].Key); !counted {
			return nil, needs{}, nil
		}
	}
	n.guards = uses
	return node, n, nil
}

// ask has terms registered, in the next transaction, for an attempt that waits for them.
func (c *Core) ask(a *attempt, missing []ledger.Term) error {
	if a.wait.asks++; a.wait.asks > maxAsks {
		return fmt.Errorf("its rules about pods on other nodes could not be registered in %d tries", maxAsks)
	}
	fresh := 0
	for _, t := range missing {
		if _, known := c.ledger.Term(t.ID()); !known {
			fresh++
		}
	}
	if n := c.ledger.TermCount() + len(c.cross.asked); n+fresh > ledger.MaxTerms {
		return &ledger.RegistryFullError{Terms: n}
	}
	if c.cross.asked == nil {
		c.cross.asked = map[ledger.TermID]ledger.Term{}
	}
	a.wait.terms = a.wait.terms[:0]
	for _, t := range missing {
		a.wait.terms = append(a.wait.terms, t.ID())
		c.cross.asked[t.ID()] = t
	}
	return nil
}

// blocked are domains in which pods may stand that are not counted.
type blocked struct {
	// any: there are some, somewhere; all: there may be some anywhere.
	any, all bool
	domains  map[string]map[string]bool
}

func (c *Core) uncounted(keys []string) blocked {
	nodes, elsewhere := c.view.Uncounted()
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

// stands says whether what a pick needs is still what it was decided on, or that plus this
// shard's own last flight; the guards' revisions are brought up to that.
//
// When the registry has moved, every pick is decided again, also one that no term concerns:
// a term may have come and gone since, with carriers that the decision has not seen and
// that no guard stands for any more.
func (c *Core) stands(a *attempt) bool {
	n := &a.pick.needs
	if n.registry != c.ledger.TermRegistryRevision() || n.countsBatch && n.withdrawn != c.cross.withdrawn {
		return false
	}
	for i := range n.guards {
		g := &n.guards[i]
		if !g.Compare {
			continue
		}
		now, counted := c.ledger.Guard(g.Key)
		if !counted || now != g.Revision && c.written[g.Key] != (step{from: g.Revision, to: now}) {
			return false
		}
		g.Revision = now
	}
	return true
}

// register sends the terms that attempts have asked for; true if there is a flight now.
func (c *Core) register(out *Output) bool {
	if len(c.cross.asked) == 0 {
		return false
	}
	var terms []ledger.Term
	var ids []ledger.TermID
	known := c.ledger.TermCount()
	for _, id := range slices.Sorted(maps.Keys(c.cross.asked)) {
		if len(ids) == termsPerTxn {
			break
		}
		old, usable := c.cross.index.Knows(id)
		if usable {
			delete(c.cross.asked, id)
			continue
		}
		if old {
			known-- // it retires, and takes its own place
		}
		terms, ids = append(terms, c.cross.asked[id]), append(ids, id)
		delete(c.cross.asked, id)
	}
	if len(terms) == 0 {
		return false
	}
	txn, err := ledger.RegisterTerms(c.ledger.Registry(), known, terms...)
	if err != nil {
		return false // the attempts ask again, and are told then
	}
	return c.changeTerms(&flight{terms: ids, txn: txn}, out)
}

// changeTerms sends a transaction about the registry.
func (c *Core) changeTerms(f *flight, out *Output) bool {
	c.flights++
	f.id, f.ofTerms = c.flights, true
	c.flight = f
	c.send(out)
	return true
}

// landTerms takes in the answer to such a transaction: carried out or not, the next one
// has to wait until the watch has told what the registry is now.
func (c *Core) landTerms(r ledger.TxnResult) {
	if r.Succeeded {
		c.cross.hold = max(c.cross.hold, r.Revision)
		return
	}
	for _, kv := range r.Current {
		if kv.Key == ledger.KeyTermRegistry {
			c.cross.hold = max(c.cross.hold, kv.ModRevision)
		}
	}
}
