package replica

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Terms is the part of a View about rules that reach beyond one node: the registry, the registered terms and their
// guards. It implements registry.Terms.
type Terms struct {
	registry registry.Registry
	terms    map[registry.TermID]registry.RegisteredTerm
	// revision is the one up to which the view is complete: View.Revision.
	revision int64
	// shares counts the terms by the namespaces that had them registered.
	shares map[string]int
	guards map[registry.TermID]map[string]guardView
}

// guardView is one guard: its revision as delivered by the watch and, ahead of the watch, that of the member's own
// last put (0 if there is none).
type guardView struct {
	read, own int64
	// follows: the own put compared the guard with the revision that this member had counted, so nothing uncounted
	// lies between.
	follows bool
}

func newTerms() Terms {
	return Terms{
		terms: map[registry.TermID]registry.RegisteredTerm{}, shares: map[string]int{},
		guards: map[registry.TermID]map[string]guardView{},
	}
}

func (tv *Terms) clone() Terms {
	c := newTerms()
	c.registry = tv.registry
	c.revision = tv.revision
	c.terms = maps.Clone(tv.terms)
	c.shares = maps.Clone(tv.shares)
	for id, guards := range tv.guards {
		c.guards[id] = maps.Clone(guards)
	}
	return c
}

// reached records that the watch has delivered everything up to a revision.
func (tv *Terms) reached(revision int64) { tv.revision = revision }

// ofTerms reports whether a key is the registry's, a term's or a guard's.
func ofTerms(key string) bool {
	return strings.HasPrefix(key, registry.PrefixTerm) || strings.HasPrefix(key, registry.PrefixGuard)
}

// Registry returns the registry of terms as delivered by the watch.
func (tv *Terms) Registry() registry.Registry { return tv.registry }

// RegistryRevision returns the mod revision of t/reg, which PlaceBatch compares; 0 while no term was ever
// registered.
func (tv *Terms) RegistryRevision() int64 { return tv.registry.Revision }

// Get returns a registered term; false if it is not registered (any more).
func (tv *Terms) Get(id registry.TermID) (registry.RegisteredTerm, bool) {
	t, ok := tv.terms[id]
	return t, ok
}

// All iterates over the registered terms, in no order.
func (tv *Terms) All() iter.Seq2[registry.TermID, registry.RegisteredTerm] {
	return maps.All(tv.terms)
}

// Count returns how many terms are registered.
func (tv *Terms) Count() int { return len(tv.terms) }

// CountOf returns how many terms count against a namespace's share.
func (tv *Terms) CountOf(namespace string) int { return tv.shares[namespace] }

// Shares iterates over the namespaces that had terms registered, with their number, in no order.
func (tv *Terms) Shares() iter.Seq2[string, int] { return maps.All(tv.shares) }

// Guard returns the revision of a guard that stands for what this view has counted: every placement that moved the
// guard up to it is in the documents this View has shown, or was handed over. It is 0 if the guard does not exist.
// A decision made on this view compares that revision.
//
// It is the watch's revision or, ahead of it, that of the member's own put, if that put compared the revision that
// was counted before. A put that compared nothing may have followed on puts of other members that the watch has not
// delivered yet: then ok is false until it has.
func (tv *Terms) Guard(key string) (revision int64, ok bool) {
	id, _, _, _ := registry.ParseGuard(key)
	g := tv.guards[id][key]
	if g.own <= tv.revision {
		return g.read, true
	}
	return g.own, g.follows
}

// Guards returns the keys of a term's guards, sorted.
func (tv *Terms) Guards(id registry.TermID) []string {
	return slices.Sorted(maps.Keys(tv.guards[id]))
}

// Unguarded returns the ids of guards whose terms are not registered (any more), sorted.
func (tv *Terms) Unguarded() []registry.TermID {
	var out []registry.TermID
	for id := range tv.guards {
		if _, ok := tv.terms[id]; !ok {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// LastUse returns the newest revision at which a term was registered or a guard of it moved.
func (tv *Terms) LastUse(id registry.TermID) int64 {
	last := tv.terms[id].Revision
	for _, g := range tv.guards[id] {
		last = max(last, g.read, g.own)
	}
	return last
}

// putOwn records that the member's own transaction t has put a guard, at revision.
func (tv *Terms) putOwn(key string, t ledger.Txn, revision int64) {
	id, _, _, ok := registry.ParseGuard(key)
	if !ok {
		return
	}
	counted, known := tv.Guard(key)
	follows := known && slices.Contains(t.Compares, ledger.Compare{Key: key, Target: ledger.ModRevision,
		Revision: counted})
	g := tv.guards[id][key]
	g.own, g.follows = revision, follows
	tv.setGuard(id, key, g)
}

// setGuard stores a guard under its term, which need not be registered (any more).
func (tv *Terms) setGuard(id registry.TermID, key string, g guardView) {
	if tv.guards[id] == nil {
		tv.guards[id] = map[string]guardView{}
	}
	tv.guards[id][key] = g
}

func (tv *Terms) put(kv ledger.KV, set *changeSet) error {
	if kv.Key == registry.KeyTermRegistry {
		if kv.ModRevision <= tv.registry.Revision {
			return nil
		}
		r, err := registry.DecodeRegistry(kv)
		if err != nil {
			return err
		}
		tv.registry, set.registry = r, true
		return nil
	}
	if id, _, _, ok := registry.ParseGuard(kv.Key); ok {
		g := tv.guards[id][kv.Key]
		g.read = max(g.read, kv.ModRevision)
		tv.setGuard(id, kv.Key, g)
		return nil
	}
	id, t, err := registry.DecodeTerm(kv)
	if err != nil || t.Revision <= tv.terms[id].Revision {
		return err
	}
	tv.uncount(id)
	tv.terms[id] = t
	if t.Namespace != "" {
		tv.shares[t.Namespace]++
	}
	set.term(id)
	return nil
}

// uncount removes a term from the share of its namespace.
func (tv *Terms) uncount(id registry.TermID) {
	namespace := tv.terms[id].Namespace
	if n := tv.shares[namespace]; n > 1 {
		tv.shares[namespace] = n - 1
		return
	}
	delete(tv.shares, namespace)
}

// drop applies a deletion. A guard that the member's own transaction has put since stays, without the revision that
// the watch has delivered.
func (tv *Terms) drop(key string, revision int64, set *changeSet) {
	if key == registry.KeyTermRegistry {
		if tv.registry.Revision < revision {
			tv.registry, set.registry = registry.Registry{}, true
		}
		return
	}
	if id, _, _, ok := registry.ParseGuard(key); ok {
		switch g := tv.guards[id][key]; {
		case g.own > revision:
			tv.setGuard(id, key, guardView{own: g.own})
		case g.read < revision:
			delete(tv.guards[id], key)
		}
		if len(tv.guards[id]) == 0 {
			delete(tv.guards, id)
		}
		return
	}
	id := registry.TermID(strings.TrimPrefix(key, registry.PrefixTerm))
	if t, ok := tv.terms[id]; ok && t.Revision < revision {
		tv.uncount(id)
		delete(tv.terms, id)
		set.term(id)
	}
}

// carryOver keeps the revisions of guards that the member's own transactions have put later than the list.
func (tv *Terms) carryOver(was *Terms) {
	for id, guards := range was.guards {
		for key, g := range guards {
			if g.own > tv.revision {
				tv.setGuard(id, key, guardView{read: tv.guards[id][key].read, own: g.own, follows: g.follows})
			}
		}
	}
}
