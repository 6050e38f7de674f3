package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A term's name must not depend on the order in which its parts are given, and two different terms must not share
// one.
func TestTermIDIsOfTheMeaning(t *testing.T) {
	a := Term{Kind: TermApart, TopologyKey: "zone", Parts: []TermPart{{
		Namespaces: []string{"a", "b"},
		Selector: []Requirement{
			{Key: "app", Operator: "In", Values: []string{"x", "y"}}, {Key: "tier", Operator: "Exists"},
		},
	}}}
	same := Term{Kind: TermApart, TopologyKey: "zone", Parts: []TermPart{{
		Namespaces: []string{"b", "a", "b"},
		Selector: []Requirement{
			{Key: "tier", Operator: "Exists"}, {Key: "app", Operator: "In", Values: []string{"y", "x", "x"}},
		},
	}}}
	if a.ID() != same.ID() {
		t.Errorf("one term has two names:\n%s\n%s", a, same)
	}
	seen := map[TermID]string{a.ID(): a.String()}
	for name, change := range map[string]func(*Term){
		"kind":            func(x *Term) { x.Kind = TermSpread },
		"key":             func(x *Term) { x.TopologyKey = "rack" },
		"namespace":       func(x *Term) { x.Parts[0].Namespaces = []string{"a"} },
		"all namespaces":  func(x *Term) { x.Parts[0].ByLabel = true },
		"namespace label": func(x *Term) { x.Parts[0].ByLabel, x.Parts[0].NamespaceSelector = true, a.Parts[0].Selector },
		"selector":        func(x *Term) { x.Parts[0].Selector = nil },
		"quoting":         func(x *Term) { x.Parts[0].Namespaces = []string{`a" "b`} },
	} {
		other := a.Canonical()
		change(&other)
		if old, ok := seen[other.ID()]; ok {
			t.Errorf("%s: %s has the name of %s", name, other, old)
		}
		seen[other.ID()] = other.String()
	}
}

func TestTermRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 8, 16)
		requirements := func(name string) []Requirement {
			var out []Requirement
			for range rapid.IntRange(0, 2).Draw(t, name) {
				out = append(out, Requirement{
					Key: text.Draw(t, "key"), Operator: rapid.SampledFrom([]string{"In", "Exists"}).Draw(t, "operator"),
					Values: rapid.SliceOfN(text, 0, 3).Draw(t, "values"),
				})
			}
			return out
		}
		term := Term{Kind: TermTogether}
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			p := TermPart{Namespaces: rapid.SliceOfN(text, 0, 3).Draw(t, "namespaces"), Selector: requirements("selector")}
			if p.ByLabel = rapid.Bool().Draw(t, "by label"); p.ByLabel {
				p.NamespaceSelector = requirements("namespace selector")
			}
			term.Parts = append(term.Parts, p)
		}
		value, err := EncodeTerm(RegisteredTerm{Term: term, Namespace: text.Draw(t, "namespace of the pod")})
		if err != nil {
			t.Fatal(err)
		}
		id, back, err := DecodeTerm(KV{Key: KeyTerm(term.ID()), Value: value})
		if err != nil || id != term.ID() {
			t.Fatalf("%s, %v; want %s", id, err, term.ID())
		}
		if diff := cmp.Diff(term.Canonical(), back.Term); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
	})
}

func TestTermsAreRefused(t *testing.T) {
	good := Term{Kind: TermApart, TopologyKey: "zone", Parts: []TermPart{{}}}
	for want, bad := range map[string]Term{
		"unknown kind 0":            {TopologyKey: "zone", Parts: good.Parts},
		"kind apart with topology":  {Kind: TermApart, Parts: good.Parts},
		"kind together with topol":  {Kind: TermTogether, TopologyKey: "zone", Parts: good.Parts},
		"kind apart with 2 parts":   {Kind: TermApart, TopologyKey: "zone", Parts: []TermPart{{}, {ByLabel: true}}},
		"kind together with 0 part": {Kind: TermTogether},
	} {
		_, err := RegisterTerms(Registry{}, NewView(), RegisteredTerm{Term: bad})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", bad, err, want)
		}
	}
	if _, err := RetireTerms(Registry{}); err == nil {
		t.Error("nothing was retired")
	}
	var refused *TxnError
	if _, err := DropGuards(Registry{}, make([]string, MaxTxnOps+1)); !errors.As(err, &refused) {
		t.Errorf("too many guards in one transaction: %v, want *TxnError", err)
	}
	value, err := EncodeTerm(RegisteredTerm{Term: good})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := DecodeTerm(KV{Key: KeyTerm("other"), Value: value}); err == nil {
		t.Error("a term was read under another's name")
	}
}

func TestPinAndUnpin(t *testing.T) {
	d := docOf(reservation("p", Committed, 1))
	keeper := Entry{PodUID: "k", Namespace: "ns", Name: "k"}
	pin := func(d NodeDoc, uid string, rv uint64) NodeDoc {
		t.Helper()
		out, err := frozen(t, d, func(d NodeDoc) (NodeDoc, error) {
			return Pin(d, keeper, Dependent{PodUID: uid, PodRV: rv})
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := append(CheckDoc(out), CheckSuccessor(d, at(out, d.Revision+1))...); len(v) > 0 {
			t.Fatal(v)
		}
		return out
	}
	d = pin(pin(d, "a", 60), "b", 70)
	if len(d.Entries) != 2 || len(d.Entries[1].Dependents) != 2 {
		t.Fatalf("%+v, want one pin for both", d)
	}
	if _, err := Place(d, Entry{PodUID: "k", Role: RoleVictim, Plan: "x"}); !errors.As(err, new(*ClaimedError)) {
		t.Errorf("a pinned pod was claimed: %v", err)
	}
	one, changed := Finish(d, factsOf{"a": 80, "p": 0, "b": 0})
	if !changed || len(one.Entries[1].Dependents) != 1 || one.HW[KindPod] != 80 {
		t.Errorf("a is bound at 80: %+v", one)
	}
	none, changed := Finish(one, factsOf{"p": 0, "a": 80}) // b is gone
	if !changed || len(none.Entries) != 1 || none.HW[KindPod] != factProgress {
		t.Errorf("b is gone: %+v", none)
	}
	crowded := d
	for i := range MaxDependents {
		var err error
		if crowded, err = Pin(crowded, keeper, Dependent{PodUID: fmt.Sprintf("pod-%d", i), PodRV: 1}); err != nil {
			if !errors.As(err, new(*DocTooLargeError)) || i != MaxDependents-2 {
				t.Fatalf("dependent %d: %v", i, err)
			}
			return
		}
	}
	t.Error("no limit")
}

// factsOf maps pods to the resourceVersion at which they are bound, 0 for unbound.
type factsOf map[string]uint64

const factProgress = 100

func (f factsOf) PodFact(uid string) (uint64, bool, bool) {
	rv, known := f[uid]
	return rv, rv > 0, known
}

func (f factsOf) PodProgress() uint64 { return factProgress }

func compared(key string, revision int64) GuardUse {
	return GuardUse{Key: key, Compare: true, Revision: revision}
}

func TestGuardKeys(t *testing.T) {
	for _, domain := range []string{"zone-a", "", WholeCluster} {
		key := KeyGuard("id", domain, Matchers)
		if id, d, part, ok := ParseGuard(key); !ok || id != "id" || d != domain || part != Matchers {
			t.Errorf("%q reads as %q, %q, %q, %v", key, id, d, part, ok)
		}
	}
	for _, key := range []string{"g/id/c", "g/id/a/b/c", "g/id/a/x", "n/id/a/c"} {
		if _, _, _, ok := ParseGuard(key); ok {
			t.Errorf("%q is taken for a guard", key)
		}
	}
	d := docOf(reservation("p", Committed, 1))
	b := PlaceBatch{Epochs: map[int32]int64{d.Entries[0].Partition(): 1}, Docs: []NodeDoc{d}, Placed: []Token{1}}
	for want, n := range map[string]Needs{
		"guard \"n/x\"":            {Guards: []GuardUse{{Key: "n/x", Put: true}}},
		"revisions 1 and 2":        {Guards: []GuardUse{compared("g/i/d/c", 1), compared("g/i/d/c", 2)}},
		"whose document is not gi": {Pins: []string{"elsewhere"}},
	} {
		b.Needs = map[Token]Needs{1: n}
		if _, err := b.Txn(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", n, err, want)
		}
	}
	b.Needs = map[Token]Needs{1: {Guards: []GuardUse{
		{Key: "g/i/d/c", Compare: true, Revision: 4}, {Key: "g/i/d/c", Put: true}, {Key: "g/i/d/m", Put: true},
	}}}
	txn, err := b.Txn()
	want := Compare{Key: "g/i/d/c", Target: ModRevision, Revision: 4}
	if err != nil || len(txn.Puts) != 3 || !slices.Contains(txn.Compares, want) {
		t.Errorf("%+v, %v: want one compare and two puts of guards", txn, err)
	}
}
