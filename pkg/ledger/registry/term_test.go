package registry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// A term's name must not depend on the order in which its parts are given, and two different terms must not share
// one.
func TestTermIDIsOfTheMeaning(t *testing.T) {
	a := registry.Term{Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{
		Namespaces: []string{"a", "b"},
		Selector: []registry.Requirement{
			{Key: "app", Operator: "In", Values: []string{"x", "y"}}, {Key: "tier", Operator: "Exists"},
		},
	}}}
	same := registry.Term{Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{
		Namespaces: []string{"b", "a", "b"},
		Selector: []registry.Requirement{
			{Key: "tier", Operator: "Exists"}, {Key: "app", Operator: "In", Values: []string{"y", "x", "x"}},
		},
	}}}
	if a.ID() != same.ID() {
		t.Errorf("one term has two names:\n%s\n%s", a, same)
	}
	seen := map[registry.TermID]string{a.ID(): a.String()}
	for name, change := range map[string]func(*registry.Term){
		"kind":           func(x *registry.Term) { x.Kind = registry.TermSpread },
		"key":            func(x *registry.Term) { x.TopologyKey = "rack" },
		"namespace":      func(x *registry.Term) { x.Parts[0].Namespaces = []string{"a"} },
		"all namespaces": func(x *registry.Term) { x.Parts[0].ByLabel = true },
		"namespace label": func(x *registry.Term) {
			x.Parts[0].ByLabel, x.Parts[0].NamespaceSelector = true,
				a.Parts[0].Selector
		},
		"selector": func(x *registry.Term) { x.Parts[0].Selector = nil },
		"quoting":  func(x *registry.Term) { x.Parts[0].Namespaces = []string{`a" "b`} },
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
		requirements := func(name string) []registry.Requirement {
			var out []registry.Requirement
			for range rapid.IntRange(0, 2).Draw(t, name) {
				out = append(out, registry.Requirement{
					Key: text.Draw(t, "key"), Operator: rapid.SampledFrom([]string{"In", "Exists"}).Draw(t, "operator"),
					Values: rapid.SliceOfN(text, 0, 3).Draw(t, "values"),
				})
			}
			return out
		}
		term := registry.Term{Kind: registry.TermTogether}
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			p := registry.TermPart{Namespaces: rapid.SliceOfN(text, 0, 3).Draw(t, "namespaces"),
				Selector: requirements("selector")}
			if p.ByLabel = rapid.Bool().Draw(t, "by label"); p.ByLabel {
				p.NamespaceSelector = requirements("namespace selector")
			}
			term.Parts = append(term.Parts, p)
		}
		value, err := registry.EncodeTerm(registry.RegisteredTerm{Term: term,
			Namespace: text.Draw(t, "namespace of the pod")})
		if err != nil {
			t.Fatal(err)
		}
		id, back, err := registry.DecodeTerm(ledger.KV{Key: registry.KeyTerm(term.ID()), Value: value})
		if err != nil || id != term.ID() {
			t.Fatalf("%s, %v; want %s", id, err, term.ID())
		}
		if diff := cmp.Diff(term.Canonical(), back.Term); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
	})
}

func TestTermsAreRefused(t *testing.T) {
	good := registry.Term{Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{}}}
	for want, bad := range map[string]registry.Term{
		"unknown kind 0":           {TopologyKey: "zone", Parts: good.Parts},
		"kind apart with topology": {Kind: registry.TermApart, Parts: good.Parts},
		"kind together with topol": {Kind: registry.TermTogether, TopologyKey: "zone", Parts: good.Parts},
		"kind apart with 2 parts": {Kind: registry.TermApart, TopologyKey: "zone",
			Parts: []registry.TermPart{{}, {ByLabel: true}}},
		"kind together with 0 part": {Kind: registry.TermTogether},
	} {
		_, err := registry.RegisterTerms(registry.Registry{}, replica.NewView().Terms(), registry.RegisteredTerm{Term: bad})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", bad, err, want)
		}
	}
	if _, err := registry.RetireTerms(registry.Registry{}); err == nil {
		t.Error("nothing was retired")
	}
	var refused *ledger.TxnError
	if _, err := registry.DropGuards(registry.Registry{}, make([]string, ledger.MaxTxnOps+1)); !errors.As(err, &refused) {
		t.Errorf("too many guards in one transaction: %v, want *TxnError", err)
	}
	value, err := registry.EncodeTerm(registry.RegisteredTerm{Term: good})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := registry.DecodeTerm(ledger.KV{Key: registry.KeyTerm("other"), Value: value}); err == nil {
		t.Error("a term was read under another's name")
	}
}

func TestGuardKeys(t *testing.T) {
	for _, domain := range []string{"zone-a", "", registry.WholeCluster} {
		key := registry.KeyGuard("id", domain, registry.Matchers)
		if id, d, part, ok := registry.ParseGuard(key); !ok || id != "id" || d != domain || part != registry.Matchers {
			t.Errorf("%q reads as %q, %q, %q, %v", key, id, d, part, ok)
		}
	}
	for _, key := range []string{"g/id/c", "g/id/a/b/c", "g/id/a/x", "n/id/a/c"} {
		if _, _, _, ok := registry.ParseGuard(key); ok {
			t.Errorf("%q is taken for a guard", key)
		}
	}
}
