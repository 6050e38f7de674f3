package decide_test

import (
	"fmt"
	"strings"
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
		{"has a disk", withDisk, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newHomeWorld(t, 1, placement.HomeAlways)
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

// withDisk gives a pod a disk of its own. Such pods are evaluated from scratch.
func withDisk(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
		GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: p.Name},
	}}}
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
			w := newHomeWorld(t, 1, placement.HomeAlways)
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

// On a calm cluster each decision looks at all nodes, whatever the number of shards; while a shard has more to do than
// one transaction holds, it tries its home nodes first. A profile can ask for one of both always.
func TestHomeNodesComeFirstWhileShardsWouldCollide(t *testing.T) {
	for _, tc := range []struct {
		policy     placement.HomePolicy
		calm, busy bool
	}{
		{placement.HomeAuto, false, true},
		{"", false, true},
		{placement.HomeAlways, true, true},
		{placement.HomeNever, false, false},
	} {
		t.Run("policy="+string(tc.policy), func(t *testing.T) {
			w := newHomeWorld(t, 1, tc.policy)
			for i := range 300 {
				w.addNode(fmt.Sprintf("n%d", i), 10)
			}
			for i := range 6 {
				w.addPod(fmt.Sprintf("calm-%d", i))
				w.offer()
				w.settle()
			}
			w.expectHome("calm", 6, tc.calm)
			// The first 32 pods of a shard come in one batch: 31 wait while it decides about the first.
			for i := range 64 {
				w.addPod(fmt.Sprintf("busy-%d", i))
			}
			w.deliverAll()
			w.expectHome("busy", 2, tc.busy)
		})
	}
}

// deliverAll offers all pods once every shard knows them, and plays until nothing is left to do.
func (w *world) deliverAll() {
	w.settle()
	w.offer()
	w.settle()
}

// expectHome checks that the first decisions of each shard about pods with a prefix looked at home nodes only, or at
// all nodes.
func (w *world) expectHome(prefix string, each int, home bool) {
	w.t.Helper()
	checked := 0
	for _, s := range w.shards {
		n := 0
		for _, d := range s.decisions {
			if !strings.HasPrefix(d.Pod.Name, prefix) || n == each {
				continue
			}
			if n++; d.Evidence.Home != home {
				w.t.Errorf("%s of %s looked at home nodes only %v, want %v", d.Pod.Name, s.id, d.Evidence.Home, home)
			}
			if total := int32(len(w.nodes)); d.Evidence.Usable != total || home == (d.Evidence.Examined == total) {
				w.t.Errorf("%s of %s: %d of %d nodes examined, of %d in all", d.Pod.Name, s.id, d.Evidence.Examined,
					d.Evidence.Usable, total)
			}
		}
		checked += n
	}
	if checked == 0 {
		w.t.Fatalf("no decision about %s", prefix)
	}
}

// A pod without preferences of its own that pods on nodes would rather not have near looks at all nodes: the home nodes
// may all be near them.
func TestPodsThatOthersSwayLookAtAllNodes(t *testing.T) {
	for _, tc := range []struct {
		app  string
		home bool
	}{
		{"unwanted", false},
		{"other", true},
	} {
		w := newHomeWorld(t, 1, placement.HomeAlways)
		for i := range 300 {
			w.addNodeIn(fmt.Sprintf("n%d", i), fmt.Sprintf("zone-%d", i%3), 10)
		}
		w.addPod("hermit", repelling("unwanted"))
		w.deliverAll()
		w.bindOne()
		for i := range 8 {
			w.addPod(fmt.Sprintf("p%d", i), func(p *corev1.Pod) { p.Labels = map[string]string{"app": tc.app} })
		}
		w.deliverAll()
		w.expectHome("p", 8, tc.home)
	}
}

// repelling makes a pod prefer other zones than those of pods of an app.
func repelling(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey:   corev1.LabelTopologyZone,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				},
			}},
		}}
	}
}

// Two shards of a cluster that is too small for home nodes decide about equal pods at the same time. Each prefers home
// nodes that are as good as the best one will be once the other shard has placed its pods, so that they lose fewer
// races, although their views lag behind at random here. No node has more pods than it would have by turns.
func TestShardsOfASmallClusterRarelyLoseRaces(t *testing.T) {
	lost := map[placement.HomePolicy]int{}
	for _, policy := range []placement.HomePolicy{placement.HomeNever, placement.HomeAuto} {
		for seed := range uint64(5) {
			w := newHomeWorld(t, seed, policy)
			for i := range 60 {
				w.addNode(fmt.Sprintf("n%d", i), 10)
			}
			for i := range 240 {
				w.addPod(fmt.Sprintf("p%d", i))
			}
			for range 8 {
				w.deliverAll()
			}
			pods := map[string]int{}
			for _, node := range w.reservations() {
				pods[node]++
			}
			most := 0
			for _, n := range pods {
				most = max(most, n)
			}
			if len(w.reservations()) != 240 || len(pods) != 60 || most > 6 {
				t.Errorf("seed %d, %s: %d pods on %d nodes, at most %d on one: want 240 on 60, 4 on each on average",
					seed, policy, len(w.reservations()), len(pods), most)
			}
			for _, s := range w.shards {
				lost[policy] += s.conflicts
			}
		}
	}
	t.Logf("races lost: %v", lost)
	if before, now := lost[placement.HomeNever], lost[placement.HomeAuto]; before < 100 || 3*now > 2*before {
		t.Errorf("%d races lost, %d where home nodes only break ties: want at most two thirds", now, before)
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

// newHomeWorld returns a world with two shards that prefer home nodes.
func newHomeWorld(t *testing.T, seed uint64, policy placement.HomePolicy) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Preemption.MaxBlockers = placement.MaxBlockersLimit
	cfg.HomeNodesFirst = policy
	return newWorldWith(t, seed, 2, cfg, func(c *decide.Config) { c.HomeFirst = true })
}

// homesWorld plays pods with different demands on nodes that fill up, so that the home nodes become too few.
func homesWorld(t *testing.T, seed uint64) *world {
	w := newHomeWorld(t, seed, placement.HomeAuto)
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

// fewHomesWorld plays equal pods on a cluster that is too small for home nodes, on which shards compete: some pods go
// to home nodes that are not the best.
func fewHomesWorld(t *testing.T, seed uint64) *world {
	w := newHomeWorld(t, seed, placement.HomeAuto)
	for i := range 40 {
		w.addNode(fmt.Sprintf("n%d", i), 10)
	}
	for i := range 160 {
		w.addPod(fmt.Sprintf("p%d", i))
	}
	for range 5 {
		w.deliverAll()
	}
	near := 0
	for _, s := range w.shards {
		for _, d := range s.decisions {
			best := d.Evidence.Candidates
			if d.Evidence.Basis.Near > 0 && len(best) > 1 && best[0].Total < best[1].Total {
				near++
			}
		}
	}
	if near == 0 {
		t.Fatal("no pod went to a home node that was not the best")
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
