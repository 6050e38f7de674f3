package state_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestTermsMatch: the pods to which a term applies, by namespace and labels.
func TestTermsMatch(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	tests := map[string]struct {
		term corev1.PodAffinityTerm
		// want are the namespaces in which a pod app=web is selected; "team" has env=prod.
		want string
	}{
		"its own namespace": {corev1.PodAffinityTerm{LabelSelector: web}, "default"},
		"named ones":        {corev1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"team", "x"}}, "team x"},
		"selected ones":     {corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: prod}, "team"},
		"named and selected": {
			corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: prod, Namespaces: []string{"x"}}, "team x"},
		"all": {
			corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: &metav1.LabelSelector{}}, "default team x"},
		"no selector, no pods": {corev1.PodAffinityTerm{}, ""},
		"every pod":            {corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}}, "default"},
		"other pods":           {corev1.PodAffinityTerm{LabelSelector: prod}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := statetest.Pod("default", "p")
			obj.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{test.term},
			}}
			term := &state.NewPod(obj).Terms.RequiredAffinity[0]
			var got []string
			for _, namespace := range []string{"default", "team", "x"} {
				labels := map[string]map[string]string{"team": {"env": "prod"}}[namespace]
				if term.Matches(namespace, labels, map[string]string{"app": "web"}) {
					got = append(got, namespace)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("matches in %q, want %q", got, test.want)
			}
		})
	}
}

// TestTermsThatCannotBeParsed: a list with one invalid term is empty, the other lists are present.
func TestTermsThatCannotBeParsed(t *testing.T) {
	bad := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}},
	}}
	obj := statetest.Pod("default", "p")
	if state.NewPod(obj.DeepCopy()).Terms != nil {
		t.Error("a pod without affinity has terms")
	}
	obj.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}, bad},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 7, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone"}},
		},
	}}
	terms := state.NewPod(obj).Terms
	if terms.Err == nil || !strings.Contains(terms.Err.Error(), `requiredAntiAffinityTerms: "Nonsense" is not a valid`) {
		t.Errorf("error %v, want the list and the operator", terms.Err)
	}
	if len(terms.RequiredAntiAffinity) != 0 || len(terms.PreferredAntiAffinity) != 1 ||
		terms.PreferredAntiAffinity[0].Weight != 7 {
		t.Errorf("terms %+v, want the preferred one alone", terms)
	}
}

// TestObjectsIn: it yields one namespace, not those whose names start with its name.
func TestObjectsIn(t *testing.T) {
	var h statetest.History
	for _, key := range []string{"a/2", "a/1", "aa/3", "b/4"} {
		namespace, name, _ := strings.Cut(key, "/")
		h.Upsert(events.KindService, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(key),
		}})
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatal(err)
	}
	var got string
	for o := range store.Snapshot().ObjectsIn(events.KindService, "a") {
		got += o.Name
	}
	if got != "12" {
		t.Errorf("services of namespace a: %q, want 1 and 2", got)
	}
}
