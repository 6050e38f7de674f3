package ledgertest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// zoneTerm returns an anti-affinity term over zones; the app distinguishes terms.
func zoneTerm(app string) registry.Term {
	return registry.Term{Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{
		Namespaces: []string{"ns"},
		Selector:   []registry.Requirement{{Key: "app", Operator: "In", Values: []string{app}}},
	}}}
}

// unowned returns terms that count against no namespace's share.
func unowned(terms []registry.Term) []registry.RegisteredTerm {
	all := make([]registry.RegisteredTerm, len(terms))
	for i, t := range terms {
		all[i].Term = t
	}
	return all
}

// registered puts terms into the registry and returns it.
func registered(t *testing.T, h Harness, r registry.Registry, terms ...registry.Term) registry.Registry {
	t.Helper()
	txn, err := registry.RegisterTerms(r, replica.NewView().Terms(), unowned(terms)...)
	if err != nil {
		t.Fatal(err)
	}
	r.Revision = mustCommit(t, h.Store, txn)
	return r
}

func carriers(term registry.Term, zone string) string {
	return registry.KeyGuard(term.ID(), zone, registry.Carriers)
}

func matchers(term registry.Term, zone string) string {
	return registry.KeyGuard(term.ID(), zone, registry.Matchers)
}

// carrier returns the needs of a pod that carries a term, decided with guards at these revisions.
func carrier(term registry.Term, zone string, c, m int64) txns.Needs {
	return txns.Needs{Guards: []registry.GuardUse{
		{Key: carriers(term, zone), Compare: true, Revision: c, Put: true},
		{Key: matchers(term, zone), Compare: true, Revision: m},
	}}
}

func matcher(term registry.Term, zone string, c int64) txns.Needs {
	return txns.Needs{Guards: []registry.GuardUse{
		{Key: carriers(term, zone), Compare: true, Revision: c},
		{Key: matchers(term, zone), Put: true},
	}}
}

// guarded places a pod on each node under a registry, each with these needs.
func (s *shard) guarded(t *testing.T, r registry.Registry, n txns.Needs, docs ...ledger.NodeDoc) txns.PlaceBatch {
	t.Helper()
	b := s.batch(t, docs...)
	b.TermRegistryRevision = r.Revision
	b.Needs = map[ledger.Token]txns.Needs{}
	for _, token := range b.Placed {
		b.Needs[token] = n
	}
	return b
}

func placeOverRegistry(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"))
	r := registered(t, h, registry.Registry{}, zoneTerm("x"))
	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if !lost.Registry || lost.RegistryRevision != r.Revision {
		t.Fatalf("lost %+v, want the registry at %d", lost, r.Revision)
	}
	if _, ok := txns.Winners(b, lost); ok {
		t.Error("placements that do not know a term may be kept")
	}
	b.TermRegistryRevision = r.Revision
	mustCommit(t, h.Store, txnOf(t, b))
}

func placeGuarded(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	x := zoneTerm("x")
	r := registered(t, h, registry.Registry{}, x)
	// Two shards have decided on the same view, for two nodes of one zone.
	for _, pair := range []struct {
		name, zone    string
		first, second txns.Needs
	}{
		{"a carrier before a matcher", "z1", carrier(x, "z1", 0, 0), matcher(x, "z1", 0)},
		{"a matcher before a carrier", "z2", matcher(x, "z2", 0), carrier(x, "z2", 0, 0)},
		{"two carriers", "z3", carrier(x, "z3", 0, 0), carrier(x, "z3", 0, 0)},
	} {
		one := s.guarded(t, r, pair.first, node("a-"+pair.zone))
		other := s.guarded(t, r, pair.second, node("b-"+pair.zone))
		mustCommit(t, h.Store, txnOf(t, one))
		res := commit(t, h.Store, txnOf(t, other))
		if res.Succeeded {
			t.Fatalf("%s: both committed", pair.name)
		}
		lost := losers(t, other, res)
		if len(lost.Guards) != 1 || len(lost.Docs) != 0 || lost.Registry {
			t.Errorf("%s: lost %+v, want one guard alone", pair.name, lost)
		}
	}
	elsewhere := s.guarded(t, r, carrier(x, "z4", 0, 0), node("a-z4"))
	mustCommit(t, h.Store, txnOf(t, elsewhere))
}

func placeMatchers(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	x := zoneTerm("x")
	r := registered(t, h, registry.Registry{}, x)
	for _, uid := range numbered("n%d", 3) {
		mustCommit(t, h.Store, txnOf(t, s.guarded(t, r, matcher(x, "z", 0), node(uid))))
	}
	// One transaction contains several placements; its guard moves once.
	b := s.guarded(t, r, matcher(x, "z", 0), node("a"), node("b"))
	if txn := txnOf(t, b); b.Ops() != len(txn.Compares) {
		t.Errorf("%d operations foretold, %d compares made", b.Ops(), len(txn.Compares))
	}
	mustCommit(t, h.Store, txnOf(t, b))
}

func placeGuardLost(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	x := zoneTerm("x")
	r := registered(t, h, registry.Registry{}, x)
	plain := txns.Needs{}
	b := s.guarded(t, r, plain, node("a"), node("b"), node("c"), node("d"))
	b.Needs[b.Placed[1]] = carrier(x, "z", 0, 0)
	b.Needs[b.Placed[2]] = carrier(x, "elsewhere", 0, 0)
	b.Needs[b.Placed[3]] = txns.Needs{CountsBatch: true}
	at := mustCommit(t, h.Store, txnOf(t, s.guarded(t, r, matcher(x, "z", 0), node("rival"))))

	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if diff := cmp.Diff(map[string]int64{matchers(x, "z"): at}, lost.Guards); diff != "" {
		t.Fatalf("lost guards (-want +got):\n%s", diff)
	}
	won, ok := txns.Winners(b, lost)
	if !ok || len(won.Docs) != 2 || won.Docs[0].NodeUID != "a" || won.Docs[1].NodeUID != "c" {
		t.Fatalf("winners %+v, want those of a and c: b lost its guard, d counted b", won)
	}
	mustCommit(t, h.Store, txnOf(t, won))
}

func placePinned(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	keeper := ledger.Entry{PodUID: "keeper", Namespace: "ns", Name: "keeper"}
	b := s.batch(t, node("a"), node("b"))
	relies := b.Docs[0].Entries[0]
	pinned, err := txns.Pin(node("home"), keeper, ledger.Dependent{PodUID: relies.PodUID, PodRV: relies.PodRV})
	if err != nil {
		t.Fatal(err)
	}
	b.Docs = append(b.Docs, pinned)
	b.Needs = map[ledger.Token]txns.Needs{relies.Token: {Pins: []string{"home"}}}

	// The keeper is claimed first: the placement that relies on it must fail.
	claim, err := txns.Place(node("home"), ledger.Entry{PodUID: "keeper", Role: ledger.RoleVictim, Plan: "p"})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, replace(t, claim))
	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	won, ok := txns.Winners(b, lost)
	if !ok || len(won.Docs) != 1 || won.Docs[0].NodeUID != "b" {
		t.Fatalf("winners %+v, want that of b alone", won)
	}
	mustCommit(t, h.Store, txnOf(t, won))
	var claimed *txns.ClaimedError
	_, err = txns.Pin(doc(t, h.Store, "home"), keeper, ledger.Dependent{PodUID: "p", PodRV: 1})
	if !errors.As(err, &claimed) {
		t.Errorf("pin of a victim: %v, want *ClaimedError", err)
	}
}

func registerTerms(t *testing.T, h Harness) {
	x, y := zoneTerm("x"), zoneTerm("y")
	r := registered(t, h, registry.Registry{}, x, y)
	stale, err := registry.RegisterTerms(registry.Registry{}, replica.NewView().Terms(),
		unowned([]registry.Term{zoneTerm("late")})...)
	if err != nil {
		t.Fatal(err)
	}
	if commit(t, h.Store, stale).Succeeded {
		t.Fatal("a term was registered over a registry nobody has read")
	}
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.guarded(t, r, carrier(x, "z", 0, 0), node("a"))))

	steps := []func(registry.Registry) (ledger.Txn, error){
		func(r registry.Registry) (ledger.Txn, error) {
			return registry.RetireTerms(r, registry.RegisteredTerm{Term: x})
		},
		func(r registry.Registry) (ledger.Txn, error) {
			return registry.DropTerms(r, 500, []registry.TermID{x.ID()}, []string{carriers(x, "z")})
		},
	}
	for _, step := range steps {
		txn, err := step(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Revision = mustCommit(t, h.Store, txn)
	}
	v := replica.NewView()
	kvs, revision := list(t, h.Store, "")
	if err := v.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	if want := (registry.Registry{Revision: r.Revision, PodRV: 500}); !reflect.DeepEqual(v.Terms().Registry(), want) {
		t.Errorf("registry %+v, want %+v", v.Terms().Registry(), want)
	}
	if _, ok := v.Terms().Get(x.ID()); ok || v.Terms().Count() != 1 || len(v.Terms().Guards(x.ID())) != 0 {
		t.Errorf("a dropped term is still there: %d terms, guards %q", v.Terms().Count(), v.Terms().Guards(x.ID()))
	}
	got, ok := v.Terms().Get(y.ID())
	if diff := cmp.Diff(y, got.Term); !ok || got.Retiring || diff != "" {
		t.Errorf("the other term is %+v, %v", got, ok)
	}
	if err := v.Reset(kvs[:len(kvs)-1], revision); err != nil {
		t.Fatal(err)
	}
}

func learnGuards(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	x := zoneTerm("x")
	r := registered(t, h, registry.Registry{}, x)
	v := replica.NewView()
	kvs, revision := list(t, h.Store, "")
	if err := v.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	at := func(key string) (int64, bool) { return v.Terms().Guard(key) }
	own := func(b txns.PlaceBatch) int64 {
		txn := txnOf(t, b)
		res := commit(t, h.Store, txn)
		if !res.Succeeded {
			t.Fatalf("a guard as counted is stale: %+v", res.Current)
		}
		if _, err := v.LearnOwn(txn, res); err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	// A carrier's put follows on the revision it compared, and the next put on that one.
	for i, uid := range numbered("n%d", 3) {
		c, ok := at(carriers(x, "z"))
		if !ok {
			t.Fatalf("round %d: the guard is not known", i)
		}
		put := own(s.guarded(t, r, carrier(x, "z", c, 0), node(uid)))
		if c, ok = at(carriers(x, "z")); !ok || c != put {
			t.Fatalf("round %d: guard at %d, %v, want the own put at %d", i, c, ok, put)
		}
	}
	// A matcher's put follows on no compare: other shards may have put before it.
	mustCommit(t, h.Store, txnOf(t, s.guarded(t, r, matcher(x, "y", 0), node("foreign"))))
	put := own(s.guarded(t, r, matcher(x, "y", 0), node("own")))
	if m, ok := at(matchers(x, "y")); ok {
		t.Fatalf("the matchers' guard is taken for counted at %d", m)
	}
	kvs, revision = list(t, h.Store, "")
	if _, err := v.Learn(kvs); err != nil {
		t.Fatal(err)
	}
	if m, ok := at(matchers(x, "y")); ok {
		t.Fatalf("the matchers' guard was learned ahead of the watch, at %d", m)
	}
	events := make([]ledger.Event, len(kvs))
	for i, kv := range kvs {
		events[i] = ledger.Event{KV: kv}
	}
	if _, err := v.Apply(ledger.EventBatch{Revision: revision, Events: events}); err != nil {
		t.Fatal(err)
	}
	if m, ok := at(matchers(x, "y")); !ok || m != put {
		t.Errorf("the watch has told it: guard at %d, %v, want %d", m, ok, put)
	}
}
