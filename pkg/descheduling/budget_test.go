package descheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

const (
	apart      = "RemovePodsViolatingInterPodAntiAffinity: {}"
	spreadOut  = "RemovePodsViolatingTopologySpreadConstraint: {topologyBalanceNodeFit: false}"
	duplicates = "RemoveDuplicates: {}"
)

// distinctPods returns pods of a namespace on a node, each with a template of its own.
func distinctPods(n int, namespace, on string, change func(i int, p *corev1.Pod)) []state.APIObject {
	var all []state.APIObject
	for i := range n {
		all = append(all, pod(fmt.Sprintf("%s/p%04d", namespace, i), on, func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": fmt.Sprint("app", i)}
			change(i, p)
		}))
	}
	return all
}

// never returns a selector that matches no pod, a different one for each number.
func never(i int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: fmt.Sprint("none", i), Operator: metav1.LabelSelectorOpExists},
	}}
}

// terms gives a pod anti-affinity to non-existent pods of all namespaces.
func terms(n int, key string) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		of := &corev1.PodAntiAffinity{}
		for j := range n {
			of.RequiredDuringSchedulingIgnoredDuringExecution = append(of.RequiredDuringSchedulingIgnoredDuringExecution,
				corev1.PodAffinityTerm{TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: never(i*n + j)})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: of}
	}
}

// ofValues gives a pod anti-affinity to pods of all namespaces with one of many values of a label that no pod has.
func ofValues(n int) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		values := make([]string, n)
		for j := range values {
			values[j] = fmt.Sprint("v", j)
		}
		terms(1, corev1.LabelTopologyZone)(i, p)
		required := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		required[0].LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "none", Operator: metav1.LabelSelectorOpIn, Values: append(values, fmt.Sprint("own", i))},
		}}
	}
}

// preferringAnyOf gives a pod preferred node affinity of one expression with many values.
func preferringAnyOf(values int) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		preferring("none", "v")(p)
		term := &p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference
		for j := range values - 1 {
			term.MatchExpressions[0].Values = append(term.MatchExpressions[0].Values, fmt.Sprint("v", i, "-", j))
		}
	}
}

// ownedAtLength gives a pod an owner whose UID has this many bytes.
func ownedAtLength(n int) func(int, *corev1.Pod) {
	return func(_ int, p *corev1.Pod) { p.OwnerReferences[0].UID = types.UID(strings.Repeat("u", n)) }
}

// constraints gives a pod spread constraints over a key that count all pods of its namespace.
func constraints(n int, key func(j int) string) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		for j := range n {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key(j), WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: fmt.Sprint("none", i*n+j), Operator: metav1.LabelSelectorOpDoesNotExist},
				}},
			})
		}
	}
}

// ownedByMany gives a pod owners of which it is the only pod.
func ownedByMany(n int) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		p.OwnerReferences = nil
		for j := range n {
			name := fmt.Sprint("o", i*n+j)
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "X", Name: name, UID: types.UID(name)})
		}
	}
}

// inZones returns nodes with room for many pods, alternately in two zones.
func inZones(n int) []state.APIObject {
	var all []state.APIObject
	for i := range n {
		all = append(all, node(fmt.Sprintf("n%04d", i), labelled(corev1.LabelTopologyZone, fmt.Sprint("z", i%2))))
	}
	return all
}

// notes returns the report of the only strategy, in one string.
func notes(out Outcome) string { return strings.Join(out.Reports[0].Says, "; ") }

// TestRulesOfOneNamespaceHaveAShare checks that rules of a namespace that would take too long are not all
// evaluated, and that those of other namespaces are.
func TestRulesOfOneNamespaceHaveAShare(t *testing.T) {
	const overspent = "rules of some pods were not evaluated because this would take too long, in namespaces: evil"
	zone := func(int) string { return corev1.LabelTopologyZone }
	for _, tt := range []struct {
		name, point, strategy string
		costly                func(int, *corev1.Pod)
		honest                []state.APIObject
	}{
		{"terms", "deschedule", apart, terms(maxRules, corev1.LabelTopologyZone), []state.APIObject{
			pod("web/p", "n0000"), pod("web/q", "n0000", repelling(corev1.PodAffinityTerm{})),
		}},
		{"values", "deschedule", apart, ofValues(1000), []state.APIObject{
			pod("web/p", "n0000"), pod("web/q", "n0000", repelling(corev1.PodAffinityTerm{})),
		}},
		{"constraints", "balance", spreadOut, constraints(maxRules, zone),
			distinctPods(6, "web", "n0000", constraints(1, zone))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := slices.Concat(inZones(4), distinctPods(120, "evil", "n0000", tt.costly), tt.honest)
			for i := range 200 {
				objects = append(objects, pod(fmt.Sprintf("other%d/p", i), "n0002"))
			}
			accepted, out := Collect(Input{
				Cluster: statetest.Snapshot(t, objects...), Policy: profileOf(t, tt.point, "", tt.strategy), Now: now,
			})
			if !strings.Contains(notes(out), overspent) {
				t.Errorf("it says %q, want %q in it", notes(out), overspent)
			}
			if !slices.ContainsFunc(accepted, func(c Candidate) bool { return c.Pod.Namespace == "web" }) {
				t.Errorf("no pod of another namespace was picked of %d", len(accepted))
			}
		})
	}
}

// TestPodsWithManyRulesStay checks that pods with more rules, or owners, than any regular pod has are not
// considered.
func TestPodsWithManyRulesStay(t *testing.T) {
	const left = "excluded as protected: 6 too many affinity terms, spread constraints or owners, " +
		"or too long an owner's UID"
	for _, tt := range []struct {
		name, point, strategy string
		costly                func(int, *corev1.Pod)
	}{
		{"terms", "deschedule", apart, terms(maxRules+1, corev1.LabelHostname)},
		{"constraints", "balance", spreadOut, constraints(maxRules+1, func(int) string { return corev1.LabelHostname })},
		{"owners", "balance", duplicates, ownedByMany(maxOwners + 1)},
		{"values of node affinity", "balance", spreadOut, preferringAnyOf(maxRequirements)},
		{"an owner's UID", "balance", duplicates, ownedAtLength(maxOwnerUID + 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := slices.Concat(inZones(4), distinctPods(6, "evil", "n0000", tt.costly))
			accepted, out := Collect(Input{
				Cluster: statetest.Snapshot(t, objects...), Policy: profileOf(t, tt.point, "", tt.strategy), Now: now,
			})
			if len(accepted) > 0 || !strings.Contains(notes(out), left) {
				t.Errorf("%d pods go, and it says %q, want none and %q in it", len(accepted), notes(out), left)
			}
		})
	}
}

// TestTheLogKeepsOwners checks that the log keeps the whole UID of an owner up to maxOwnerUID: what was done to an
// owner is known by its UID from the log, so only pods with such owners are considered.
func TestTheLogKeepsOwners(t *testing.T) {
	owner := strings.Repeat("u", maxOwnerUID)
	m := events.EncodeDecision(events.Decision{
		Kind: events.DecisionEvict, Attempt: 1, Pod: events.PodRef{UID: "uid", Namespace: "web", Name: "p"}, Owner: owner,
	})
	d, err := events.DecodeDecision(eventlog.Record{Message: m, Sequence: 1})
	if err != nil || d.Owner != owner {
		t.Errorf("an owner's UID of %d bytes has %d in the log; error %v", len(owner), len(d.Owner), err)
	}
}

// TestKeysThatNoNodeHas checks that constraints over such keys are not even parsed, and that the strategy reports
// it.
func TestKeysThatNoNodeHas(t *testing.T) {
	madeUp := constraints(maxRules, func(j int) string { return fmt.Sprint("made-up/", j) })
	_, out := Collect(Input{
		Cluster: statetest.Snapshot(t, slices.Concat(inZones(2), distinctPods(3, "evil", "n0000", madeUp))...),
		Policy:  profileOf(t, "balance", "", spreadOut), Now: now,
	})
	if got, want := notes(out), "no node has the topology labels of the constraints"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// BenchmarkRulesOfOneNamespace measures a strategy in a cluster of 500 nodes with 1000 pods of one namespace, each
// with the largest number of rules that are considered, or more.
func BenchmarkRulesOfOneNamespace(b *testing.B) {
	const nodes, pods = 500, 1000
	madeUp := func(j int) string { return fmt.Sprint("made-up/", j) }
	matching := func(i int, p *corev1.Pod) {
		terms(32, corev1.LabelTopologyZone)(i, p)
		list := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for j := range list {
			list[j].LabelSelector = &metav1.LabelSelector{}
		}
	}
	for _, bb := range []struct {
		name, point, strategy string
		costly                func(int, *corev1.Pod)
	}{
		{"terms", "deschedule", apart, terms(64, corev1.LabelTopologyZone)},
		{"terms-matching", "deschedule", apart, matching},
		{"terms-beyond", "deschedule", apart, terms(500, corev1.LabelTopologyZone)},
		{"constraints", "balance", spreadOut, constraints(64, func(int) string { return corev1.LabelTopologyZone })},
		{"constraints-made-up", "balance", spreadOut, constraints(64, madeUp)},
		{"owners-beyond", "balance", duplicates, ownedByMany(500)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			in := Input{
				Cluster: statetest.Snapshot(b, slices.Concat(inZones(nodes), distinctPods(pods, "evil", "n0000", bb.costly))...),
				Policy:  profileOf(b, bb.point, "", bb.strategy), Now: now,
			}
			b.ReportAllocs()
			for b.Loop() {
				Collect(in)
			}
		})
	}
}
