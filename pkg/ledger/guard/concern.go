package guard

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Namespace holds what is known of a pod's namespace.
type Namespace struct {
	Labels map[string]string
	Known  bool
}

// Concern is everything that concerns one pod's placement beyond its node: the rules it carries and the registered
// rules that select it. It is a value of one decision.
type Concern struct {
	carried []carried
	matched []*indexed
	// Uncertain: whether a term selects the pod depends on the labels of its namespace, which are not known yet.
	// The pod must wait.
	Uncertain bool
}

// carried is one of the pod's own rules.
type carried struct {
	id   registry.TermID
	term registry.Term
	// known: the term is registered; usable: it is registered and not retiring.
	known, usable bool
}

// Of gathers what concerns a pod. The pod must be described.
func (x *Index) Of(pod *state.Pod, rules []rule.CrossRule, ns Namespace) Concern {
	var c Concern
	for _, r := range rules {
		if selectsNothing(r.Terms) {
			continue
		}
		term := TermOf(r)
		id := term.ID()
		known, usable := x.Knows(id)
		c.carried = append(c.carried, carried{id: id, term: term, known: known, usable: usable})
	}
	c.matched, c.Uncertain = x.matching(pod.Kind, ns)
	return c
}

// None reports whether nothing concerns the pod, so that it needs only its node's document.
func (c *Concern) None() bool { return len(c.carried) == 0 && len(c.matched) == 0 && !c.Uncertain }

// CountsBatch reports whether a pod that was counted elsewhere may have made this placement possible: see
// txns.Needs.
func (c *Concern) CountsBatch() bool {
	return slices.ContainsFunc(c.carried, func(r carried) bool { return r.term.Kind == registry.TermSpread })
}

// Together reports whether the pod has required affinity.
func (c *Concern) Together() bool {
	return slices.ContainsFunc(c.carried, func(r carried) bool { return r.term.Kind == registry.TermTogether })
}

// IDs returns the terms that the pod carries, and those that select it.
func (c *Concern) IDs() []registry.TermID {
	ids := make([]registry.TermID, 0, len(c.carried)+len(c.matched))
	for _, r := range c.carried {
		ids = append(ids, r.id)
	}
	for _, m := range c.matched {
		ids = append(ids, m.id)
	}
	return ids
}

// Keys returns the topology keys in whose domains every pod must have been counted before the pod may be placed
// there, each once.
func (c *Concern) Keys() []string {
	var keys []string
	add := func(kind registry.TermKind, key string) {
		if kind != registry.TermTogether && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, r := range c.carried {
		add(r.term.Kind, r.term.TopologyKey)
	}
	for _, m := range c.matched {
		if m.kind == registry.TermApart {
			add(m.kind, m.key)
		}
	}
	return keys
}

// Choice is a place considered for the pod.
type Choice struct {
	// Labels of the node.
	Labels map[string]string
	// First: no pod in the cluster satisfies the pod's required affinity; it is the first of
	// its kind.
	First bool
	// SharedHost: another node has the same hostname label.
	SharedHost bool
}

// Demand lists the guards and terms that the placement of a pod requires.
type Demand struct {
	// Uses are the guard uses, without the revisions that are compared. Those of missing terms are included, as
	// they will be once the terms are registered.
	Uses []registry.GuardUse
	// Missing are the terms that must be registered first.
	Missing []registry.Term
	// Carried is how many of the pod's own terms need guards.
	Carried int
}

// At returns what the pod's placement at this choice requires.
func (c *Concern) At(to Choice) Demand {
	a := answer{to: to}
	if len(c.carried) > 0 {
		a.carries = make(map[registry.TermID]struct{}, len(c.carried))
	}
	for i := range c.carried {
		a.carry(&c.carried[i])
	}
	for _, m := range c.matched {
		if _, carries := a.carries[m.id]; !carries {
			a.match(m)
		}
	}
	return Demand{Uses: a.uses, Missing: a.missing, Carried: len(a.carries)}
}

// answer is the state of a call of At.
type answer struct {
	to      Choice
	uses    []registry.GuardUse
	missing []registry.Term
	// carries are the terms for which the guard uses of a carrier are settled.
	carries map[registry.TermID]struct{}
}

func (a *answer) use(id registry.TermID, domain string, part registry.Part, compare, put bool) {
	a.uses = append(a.uses, registry.GuardUse{Key: registry.KeyGuard(id, domain, part), Compare: compare, Put: put})
}

func (a *answer) carry(r *carried) {
	if _, carries := a.carries[r.id]; carries {
		return
	}
	if r.term.Kind == registry.TermTogether {
		a.follow(r)
		return
	}
	domain, in := a.to.Labels[r.term.TopologyKey]
	// The document of a node stands for its hostname, unless it shares that with another node (or the term is
	// registered because another shard has seen that it does).
	byDocument := r.term.TopologyKey == corev1.LabelHostname && !a.to.SharedHost
	if !in || !r.known && byDocument {
		return
	}
	a.settle(r)
	a.use(r.id, domain, registry.Carriers, true, true)
	a.use(r.id, domain, registry.Matchers, true, false)
}

// settle records that the pod carries a term with guards.
func (a *answer) settle(r *carried) {
	a.carries[r.id] = struct{}{}
	if !r.usable {
		a.missing = append(a.missing, r.term)
	}
}

// follow is carry for required affinity. A pod that follows others needs no guard: those pods are bound, and a pod
// that might consider itself the first will find them.
func (a *answer) follow(r *carried) {
	if a.to.First {
		a.settle(r)
		a.use(r.id, registry.WholeCluster, registry.Matchers, true, true)
	}
}

func (a *answer) match(m *indexed) {
	domain, in := a.to.Labels[m.key]
	switch m.kind {
	case registry.TermTogether:
		a.use(m.id, registry.WholeCluster, registry.Matchers, false, true)
	case registry.TermSpread:
		if in {
			a.use(m.id, domain, registry.Matchers, false, true)
		}
	case registry.TermApart:
		if in {
			a.use(m.id, domain, registry.Carriers, true, false)
			a.use(m.id, domain, registry.Matchers, false, true)
		}
	}
}
