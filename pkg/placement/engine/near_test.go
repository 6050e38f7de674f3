package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/state"
)

// rack is a cluster of equal nodes in two zones, of which every third is a home node.
type rack struct {
	engine  *engine.Engine
	view    *placementtest.View
	profile *placement.Profile
	pods    int
}

func newRack(t *testing.T, nodes int) *rack {
	t.Helper()
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{engine: engine.New(engine.Config{}), profile: profile}
	r.view = placementtest.NewView(r.engine)
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		r.view.Apply(placementtest.Event{Kind: events.KindNode, New: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%2),
			}},
			Status: corev1.NodeStatus{Allocatable: amounts("4", "16Gi")},
		}})
	}
	for i, n := range r.view.Nodes() {
		r.engine.SetUsable(n, true)
		r.engine.SetHome(n, i%3 == 0)
	}
	return r
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods: resource.MustParse("110"),
	}
}

// pod returns a new pod with these requests.
func (r *rack) pod(cpu, memory string) *corev1.Pod {
	r.pods++
	name := fmt.Sprintf("p%d", r.pods)
	requests := amounts(cpu, memory)
	delete(requests, corev1.ResourcePods)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
}

// run makes a pod run on a node.
func (r *rack) run(p *corev1.Pod, node string) {
	p.Spec.NodeName = node
	r.view.Apply(placementtest.Event{Kind: events.KindPod, New: p})
}

// total returns the total of a node for a pod, from scratch; -1 if it does not fit.
func (r *rack) total(pod *corev1.Pod, node string) int64 {
	all := r.profile.Evaluate(placement.Input{Pod: state.NewPod(pod), Nodes: r.view.Nodes(), Limit: -1})
	for _, s := range all.Feasible {
		if s.Node.Node.Name == node {
			return s.Total
		}
	}
	return -1
}

// isHome reports whether a node is a home node.
func (r *rack) isHome(node string) bool {
	for i, n := range r.view.Nodes() {
		if n.Node.Name == node {
			return i%3 == 0
		}
	}
	return false
}

// With Query.Near, the best home node comes first exactly if it is no worse than the best node would be with so many
// more such pods on it. The rest of the ranking stays as it is. The totals are those of evaluations from scratch.
func TestNearHomeNodesComeFirst(t *testing.T) {
	moved, kept := 0, 0
	for seed := range uint64(40) {
		draw := rand.New(rand.NewPCG(seed, 0))
		r := newRack(t, 30)
		for range draw.IntN(20) {
			r.run(r.pod([]string{"100m", "250m", "1"}[draw.IntN(3)], []string{"256Mi", "1Gi", "3Gi"}[draw.IntN(3)]),
				fmt.Sprintf("n%02d", draw.IntN(30)))
		}
		cpu := []string{"100m", "250m", "500m"}[draw.IntN(3)]
		// The shard has placed some such pods at home already.
		for range draw.IntN(4) {
			for i := 0; i < 30; i += 3 {
				r.run(r.pod(cpu, "512Mi"), fmt.Sprintf("n%02d", i))
			}
		}
		pod, more := r.pod(cpu, "512Mi"), 1+draw.IntN(3)
		q := engine.Query{Pod: state.NewPod(pod), Seed: seed, HomeFirst: true, Limit: -1}
		best := namesOf(r.engine.Evaluate(r.profile, q))
		home := ""
		for _, name := range best {
			if home == "" && r.isHome(name) {
				home = name
			}
		}
		q.Near = int64(more)
		got := namesOf(r.engine.Evaluate(r.profile, q))
		// What the best node would score with the other pods.
		homes := r.total(pod, home)
		for range more {
			r.run(r.pod(cpu, "512Mi"), best[0])
		}
		first := best[0]
		if with := r.total(pod, best[0]); with >= 0 && homes >= with && !r.isHome(best[0]) {
			first = home
			moved++
		} else {
			kept++
		}
		want := append([]string{first}, without(best, first)...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d, %d more pods: ranked %v\nwant %v", seed, more, got, want)
		}
	}
	if moved < 8 || kept < 8 {
		t.Errorf("a home node came first %d times, %d times not: the test needs both", moved, kept)
	}
}

func namesOf(r placement.Result) (list []string) {
	for _, s := range r.Feasible {
		list = append(list, s.Node.Node.Name)
	}
	return list
}

func without(list []string, name string) (rest []string) {
	for _, n := range list {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}

// A pod is swayed while preferred terms of pods on nodes select it, and those terms do not cancel each other out.
func TestPodsAreSwayedByTermsOfOthers(t *testing.T) {
	r := newRack(t, 6)
	pod := r.pod("100m", "64Mi")
	pod.Labels = map[string]string{"app": "web"}
	expect := func(want bool, when string) {
		t.Helper()
		q := engine.Query{Pod: state.NewPod(pod), Home: true}
		if got := r.engine.Evaluate(r.profile, q); got.Swayed != want || len(got.Feasible) == 0 {
			t.Errorf("swayed %v %s, want %v", got.Swayed, when, want)
		}
		q.Home, q.Near = false, 100
		if got := r.engine.Evaluate(r.profile, q); got.Swayed != want {
			t.Errorf("swayed %v among all nodes %s, want %v", got.Swayed, when, want)
		}
	}
	expect(false, "without others")
	other := r.pod("100m", "64Mi")
	other.Spec.Affinity = preferring("db")
	r.run(other, "n00")
	expect(false, "by terms that select others")
	suitor := r.pod("100m", "64Mi")
	suitor.Spec.Affinity = preferring("web")
	r.run(suitor, "n01")
	expect(true, "by a term that selects it")
	r.view.Apply(placementtest.Event{Kind: events.KindPod, Old: suitor})
	expect(false, "when that pod has gone")
}

// preferring returns the preference for the zone of pods of an app.
func preferring(app string) *corev1.Affinity {
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 50, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey:   corev1.LabelTopologyZone,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			},
		}},
	}}
}
