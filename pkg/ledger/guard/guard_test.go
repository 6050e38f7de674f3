package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

func newPod(labels map[string]string, change func(*corev1.PodSpec)) *state.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "p", UID: types.UID("p-uid"), ResourceVersion: "1", Labels: labels,
	}}
	if change != nil {
		change(&p.Spec)
	}
	return state.NewPod(p)
}

func app(value string) map[string]string { return map[string]string{"app": value} }

func selector(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: app(value)}
}

func apart(key, value string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: selector(value)},
			},
		}}
	}
}

func together(key, value string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: selector(value)},
			},
		}}
	}
}

func spread(key, value string, maxSkew int32) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector(value),
		}}
	}
}

func profile(t rapid.TB) *placement.Profile {
	t.Helper()
	p, err := placement.NewProfile(placement.DefaultProfile("default-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rulesOf(t rapid.TB, p *state.Pod) []rule.CrossRule {
	t.Helper()
	rules, err := profile(t).CrossRules(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func termsOf(t rapid.TB, p *state.Pod) []registry.Term {
	t.Helper()
	var terms []registry.Term
	for _, r := range rulesOf(t, p) {
		terms = append(terms, guard.TermOf(r))
	}
	return terms
}

// indexOf returns an index in which the terms of some pods are registered.
func indexOf(t rapid.TB, pods ...*state.Pod) *guard.Index {
	t.Helper()
	x := guard.NewIndex()
	for _, p := range pods {
		for _, term := range termsOf(t, p) {
			if err := x.Set(term.ID(), registry.RegisteredTerm{Term: term}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return x
}

// formatUses formats uses without the hashes: "compare c zone-a, put m *".
func formatUses(uses []registry.GuardUse) string {
	var parts []string
	for _, u := range uses {
		_, domain, part, _ := registry.ParseGuard(u.Key)
		did := ""
		if u.Compare {
			did = "compare "
		}
		if u.Put {
			did += "put "
		}
		parts = append(parts, fmt.Sprintf("%s%s %s", did, part, domain))
	}
	return strings.Join(parts, ", ")
}

const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname

// What a pod needs, by what it carries, what is registered, and where it is placed.
func TestAt(t *testing.T) {
	inZone := guard.Choice{Labels: map[string]string{zone: "z", host: "h"}}
	shared, first := inZone, inZone
	shared.SharedHost, first.First = true, true
	repels := newPod(app("a"), apart(zone, "b"))
	repelsByHost := newPod(app("a"), apart(host, "b"))
	spreads := newPod(app("b"), spread(zone, "b", 1))
	joins := newPod(app("b"), together(zone, "b"))
	victim := newPod(app("b"), nil)
	for _, c := range []struct {
		name    string
		pod     *state.Pod
		known   []*state.Pod
		to      guard.Choice
		want    string
		missing int
		carried int
	}{
		{"nothing", victim, nil, inZone, "", 0, 0},
		{"a carrier whose term is not registered", repels, nil, inZone,
			"compare put c z, compare m z", 1, 1},
		{"a carrier", repels, []*state.Pod{repels}, inZone, "compare put c z, compare m z", 0, 1},
		{"a matcher", victim, []*state.Pod{repels}, inZone, "compare c z, put m z", 0, 0},
		{"a matcher outside all domains", victim, []*state.Pod{repels}, guard.Choice{}, "", 0, 0},
		{"a carrier over hosts", repelsByHost, nil, inZone, "", 0, 0},
		{"a carrier over hosts, two of one name", repelsByHost, nil, shared,
			"compare put c h, compare m h", 1, 1},
		{"a carrier over hosts that somebody has seen shared", repelsByHost, []*state.Pod{repelsByHost}, inZone,
			"compare put c h, compare m h", 0, 1},
		{"one of a spread", spreads, []*state.Pod{spreads}, inZone, "compare put c z, compare m z", 0, 1},
		{"one that a spread counts", victim, []*state.Pod{spreads}, inZone, "put m z", 0, 0},
		{"one that follows", joins, nil, inZone, "", 0, 0},
		{"one that follows and can be followed", joins, []*state.Pod{joins}, inZone, "put m *", 0, 0},
		{"the first, unregistered", joins, nil, first, "compare put m *", 1, 1},
		{"the first", joins, []*state.Pod{joins}, first, "compare put m *", 0, 1},
		{"one that can be followed", victim, []*state.Pod{joins}, inZone, "put m *", 0, 0},
		{"one of a spread that is repelled", spreads, []*state.Pod{spreads, repels}, inZone,
			"compare put c z, compare m z, compare c z, put m z", 0, 1},
	} {
		concern := indexOf(t, c.known...).Of(c.pod, rulesOf(t, c.pod), guard.Namespace{Known: true})
		d := concern.At(c.to)
		if got := formatUses(d.Uses); got != c.want || len(d.Missing) != c.missing || d.Carried != c.carried {
			t.Errorf("%s: %q, %d terms missing and %d carried, want %q, %d and %d",
				c.name, got, len(d.Missing), d.Carried, c.want, c.missing, c.carried)
		}
	}
}

func TestConcern(t *testing.T) {
	spreads := newPod(app("b"), spread(zone, "b", 1))
	x := indexOf(t, newPod(nil, apart("rack", "b")), spreads)
	c := x.Of(spreads, rulesOf(t, spreads), guard.Namespace{Known: true})
	if !c.CountsBatch() || c.Together() || c.None() {
		t.Error("a spread pod counts its batch, and follows nobody")
	}
	if diff := cmp.Diff([]string{zone, "rack"}, c.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	// The matcher of a spread relies on no count.
	c = x.Of(newPod(app("b"), nil), nil, guard.Namespace{Known: true})
	if diff := cmp.Diff([]string{"rack"}, c.Keys()); diff != "" {
		t.Errorf("keys of a matcher (-want +got):\n%s", diff)
	}
	none := x.Of(newPod(app("other"), nil), nil, guard.Namespace{Known: true})
	if !none.None() {
		t.Error("a pod that nothing concerns is concerned")
	}
	for _, r := range []*corev1.PodSpec{{}} {
		apart(zone, "b")(r)
		r.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = nil
		p := newPod(nil, func(s *corev1.PodSpec) { *s = *r })
		if n := len(rulesOf(t, p)); n != 0 {
			t.Errorf("a term that selects nothing makes %d rules", n)
		}
	}
}

// Constraints that count the same pods share guards, whatever their other fields are.
func TestTermsAreShared(t *testing.T) {
	id := func(p *state.Pod) registry.TermID { return termsOf(t, p)[0].ID() }
	if id(newPod(nil, spread(zone, "a", 1))) != id(newPod(app("x"), spread(zone, "a", 5))) {
		t.Error("maxSkew makes another term")
	}
	if id(newPod(nil, spread(zone, "a", 1))) == id(newPod(nil, spread(host, "a", 1))) {
		t.Error("two topology keys make one term")
	}
	if id(newPod(nil, together(zone, "a"))) != id(newPod(nil, together("rack", "a"))) {
		t.Error("who is the first of a kind does not depend on the topology key")
	}
	if id(newPod(nil, apart(zone, "a"))) == id(newPod(nil, spread(zone, "a", 1))) {
		t.Error("two kinds make one term")
	}
	expressions := newPod(nil, func(s *corev1.PodSpec) {
		spread(zone, "a", 1)(s)
		s.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}},
			},
		}
	})
	if id(expressions) != id(newPod(nil, spread(zone, "a", 1))) {
		t.Error("one selector in two notations makes two terms")
	}
	byRevision := func(hash string) *state.Pod {
		return newPod(map[string]string{"app": "a", "hash": hash}, func(s *corev1.PodSpec) {
			spread(zone, "a", 1)(s)
			s.TopologySpreadConstraints[0].MatchLabelKeys = []string{"hash"}
		})
	}
	one, same, other := id(byRevision("1")), id(byRevision("1")), id(byRevision("2"))
	if one == other || one != same {
		t.Error("matchLabelKeys are part of what a term counts")
	}
}

func TestNamespaces(t *testing.T) {
	byTeam := newPod(nil, func(s *corev1.PodSpec) {
		apart(zone, "b")(s)
		s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector =
			&metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	})
	x := indexOf(t, byTeam)
	victim, other := newPod(app("b"), nil), newPod(app("c"), nil)
	to := guard.Choice{Labels: map[string]string{zone: "z"}}
	for _, c := range []struct {
		name      string
		pod       *state.Pod
		ns        guard.Namespace
		matches   bool
		uncertain bool
	}{
		{"one that matches", victim, guard.Namespace{Known: true, Labels: map[string]string{"team": "x"}}, true, false},
		{"one that does not", victim, guard.Namespace{Known: true}, false, false},
		{"one that nobody knows", victim, guard.Namespace{}, false, true},
		{"one that nobody needs to know", other, guard.Namespace{}, false, false},
	} {
		concern := x.Of(c.pod, nil, c.ns)
		uses := concern.At(to).Uses
		if (len(uses) > 0) != c.matches || concern.Uncertain != c.uncertain {
			t.Errorf("%s: matches %v, uncertain %v", c.name, len(uses) > 0, concern.Uncertain)
		}
	}
	everywhere := newPod(nil, func(s *corev1.PodSpec) {
		apart(zone, "b")(s)
		term := &s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		term.Namespaces, term.NamespaceSelector = []string{"named"}, &metav1.LabelSelector{}
	})
	if c := indexOf(t, everywhere).Of(victim, nil, guard.Namespace{}); c.Uncertain || c.None() {
		t.Error("a selector of all namespaces needs to know none of them")
	}
}

// Whatever is registered and dropped, the index finds the same as a check of every term.
func TestIndexFindsWhatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SampledFrom([]string{"a", "b", "c"})
		x := guard.NewIndex()
		registered := map[registry.TermID]*metav1.LabelSelector{}
		selects := func(s *metav1.LabelSelector, labels map[string]string) bool {
			m, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				t.Fatal(err)
			}
			return m.Matches(k8slabels.Set(labels))
		}
		for range rapid.IntRange(0, 12).Draw(t, "terms") {
			s := &metav1.LabelSelector{}
			for range rapid.IntRange(1, 2).Draw(t, "requirements") {
				op := rapid.SampledFrom([]metav1.LabelSelectorOperator{
					metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
				}).Draw(t, "operator")
				r := metav1.LabelSelectorRequirement{Key: values.Draw(t, "key"), Operator: op}
				if op != metav1.LabelSelectorOpExists {
					r.Values = rapid.SliceOfNDistinct(values, 1, 3, rapid.ID).Draw(t, "values")
				}
				s.MatchExpressions = append(s.MatchExpressions, r)
			}
			p := newPod(nil, func(spec *corev1.PodSpec) {
				apart(zone, "")(spec)
				spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = s
			})
			term := termsOf(t, p)[0]
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				x.Drop(term.ID())
				delete(registered, term.ID())
				continue
			}
			if err := x.Set(term.ID(), registry.RegisteredTerm{Term: term}); err != nil {
				t.Fatal(err)
			}
			registered[term.ID()] = s
		}
		labels := rapid.MapOfN(values, values, 0, 3).Draw(t, "labels")
		pod := newPod(labels, nil)
		c := x.Of(pod, nil, guard.Namespace{Known: true})
		for id, s := range registered {
			if got, want := slices.Contains(c.IDs(), id), selects(s, labels); got != want {
				t.Fatalf("term %s selects %v: %v, want %v", s, labels, got, want)
			}
		}
		uses := c.At(guard.Choice{Labels: map[string]string{zone: "z"}}).Uses
		keys := make([]string, len(uses))
		for i, u := range uses {
			keys[i] = u.Key
		}
		if !slices.IsSortedFunc(keys, func(a, b string) int { return strings.Compare(a[:len("g/")+32], b[:len("g/")+32]) }) {
			t.Fatalf("uses in no order: %q", keys)
		}
	})
}

// BenchmarkOf measures the cost of finding what concerns a pod, in a registry that is full.
func BenchmarkOf(b *testing.B) {
	x := guard.NewIndex()
	for i := range registry.MaxTerms {
		term := termsOf(b, newPod(nil, spread(zone, fmt.Sprint("app-", i), 1)))[0]
		if err := x.Set(term.ID(), registry.RegisteredTerm{Term: term}); err != nil {
			b.Fatal(err)
		}
	}
	for name, pod := range map[string]*state.Pod{
		"plain": newPod(app("none"), nil), "matcher": newPod(app("app-7"), nil),
		"carrier": newPod(app("app-7"), spread(zone, "app-7", 1)),
	} {
		b.Run(name, func(b *testing.B) {
			p := profile(b)
			b.ReportAllocs()
			for b.Loop() {
				rules, err := p.CrossRules(pod, nil)
				if err != nil {
					b.Fatal(err)
				}
				concern := x.Of(pod, rules, guard.Namespace{Known: true})
				if !concern.None() {
					concern.At(guard.Choice{Labels: map[string]string{zone: "z"}})
				}
			}
		})
	}
}
