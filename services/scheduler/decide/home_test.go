package decide_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
)

// Pods that restrict their nodes, but have no preference among them, are placed on home nodes where there is a
// choice: shards that considered all nodes would all choose the same ones.
func TestWhoIsPlacedAtHome(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		home bool
	}{
		{"says nothing", func(*corev1.Pod) {}, true},
		{"names a zone", selecting("zone-0"), true},
		{"requires a zone", requiring("zone-1"), true},
		{"names a zone with few nodes", selecting("small"), false},
		{"prefers a zone", preferring(corev1.LabelTopologyZone, "zone-0"), false},
		{"has to spread", spreading(corev1.DoNotSchedule), true},
		{"would rather spread", spreading(corev1.ScheduleAnyway), false},
		{"has to stand apart", apart(true), true},
		{"would rather stand apart", apart(false), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newHomeWorld(t, 1)
			for i := range 300 {
				w.addNodeIn(fmt.Sprintf("n%d", i), fmt.Sprintf("zone-%d", i%3), 10)
			}
			for i := range 4 {
				w.addNodeIn(fmt.Sprintf("s%d", i), "small", 10)
			}
			w.placeAndCheck(40, tc.pod, func(s *shard, d events.Decision) {
				if d.Evidence.Home != tc.home {
					t.Fatalf("%s, among home nodes only %v: want %v", d.Pod.Name, d.Evidence.Home, tc.home)
				}
				if tc.home && !w.home(s, d.NodeUID) {
					t.Fatalf("%s was placed on %s, which is another shard's home", d.Pod.Name, d.NodeName)
				}
			})
		})
	}
}

// Where a shard considers all nodes, because it has few home nodes or the pod has preferences, it picks a home node
// if that is as good as any: shards that broke ties alike would conflict. A better node comes first wherever it is.
func TestEquallyGoodNodesAreTakenAtHome(t *testing.T) {
	for _, tc := range []struct {
		name        string
		nodes, pods int
		pod         func(*corev1.Pod)
		home        bool
	}{
		{"small cluster", 60, 24, func(*corev1.Pod) {}, true},
		{"equally preferred", 200, 24, preferring(corev1.LabelTopologyZone, "zone-0"), true},
		{"one is preferred", 200, 8, preferring(corev1.LabelTopologyZone, "best"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newHomeWorld(t, 1)
			for i := range tc.nodes {
				w.addNodeIn(fmt.Sprintf("n%d", i), fmt.Sprintf("zone-%d", i%2), 10)
			}
			if !tc.home {
				w.addNodeIn("best", "best", 10)
			}
			w.placeAndCheck(tc.pods, tc.pod, func(s *shard, d events.Decision) {
				switch {
				case d.Evidence.Home:
					t.Fatalf("%s was placed among home nodes only, want all nodes", d.Pod.Name)
				case tc.home && !w.home(s, d.NodeUID):
					t.Fatalf("%s was placed on %s, which is another shard's home", d.Pod.Name, d.NodeName)
				case !tc.home && d.NodeName != "best":
					t.Fatalf("%s was placed on %s, which is not the one it prefers", d.Pod.Name, d.NodeName)
				}
			})
		})
	}
}

// placeAndCheck makes shards place new pods, and checks each decision.
func (w *world) placeAndCheck(pods int, edit func(*corev1.Pod), check func(*shard, events.Decision)) {
	w.t.Helper()
	for i := range pods {
		w.addPod(fmt.Sprintf("p%d", i), edit)
	}
	for range 4 {
		w.offer()
		w.settle()
	}
	placed := 0
	for _, s := range w.shards {
		for _, d := range s.decisions {
			if d.Kind != events.DecisionPlaced {
				w.t.Fatalf("%s: %s, want it placed", d.Pod.Name, d.Kind)
			}
			check(s, d)
			placed++
		}
	}
	if placed != pods {
		w.t.Fatalf("%d pods placed, want %d", placed, pods)
	}
}

// newHomeWorld returns a world with two shards that try home nodes first.
func newHomeWorld(t *testing.T, seed uint64) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Preemption.MaxBlockers = placement.MaxBlockersLimit
	return newWorldWith(t, seed, 2, cfg, func(c *decide.Config) { c.HomeFirst = true })
}

// homesWorld plays pods with different demands on nodes that fill up, so that the home nodes become too few.
func homesWorld(t *testing.T, seed uint64) *world {
	w := newHomeWorld(t, seed)
	for i := range 160 {
		w.addNodeIn(fmt.Sprintf("n%d", i), fmt.Sprintf("zone-%d", i%3), 1+int64(w.rng.IntN(2)))
	}
	wishes := []func(*corev1.Pod){
		func(*corev1.Pod) {}, selecting("zone-0"), selecting("zone-1"), requiring("zone-1"),
		preferring(corev1.LabelTopologyZone, "zone-2"),
	}
	for i := range 200 {
		w.addPod(fmt.Sprintf("p%d", i), wishes[w.rng.IntN(len(wishes))])
	}
	for range 5 {
		w.offer()
		w.settle()
	}
	return w
}

func selecting(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} }
}

// preferring makes a pod prefer nodes with a label.
func preferring(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: termOf(key, value),
			}},
		}}
	}
}

func requiring(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{termOf(corev1.LabelTopologyZone, zone)},
			},
		}}
	}
}

func spreading(otherwise corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: otherwise,
			LabelSelector: &metav1.LabelSelector{},
		}}
	}
}

func apart(required bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}},
		}
		rules := &corev1.PodAntiAffinity{}
		if required {
			rules.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term}
		} else {
			rules.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{
				Weight: 1, PodAffinityTerm: term,
			}}
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: rules}
	}
}

func termOf(key, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
	}}}
}
