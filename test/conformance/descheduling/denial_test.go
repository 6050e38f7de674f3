package descheduling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// plain is a world of only nodes and pods. crowd has the number of pods on each node.
func plain(crowd ...int) *world {
	w := &world{now: time.Now().Truncate(time.Second)}
	plenty := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	for i, pods := range crowd {
		name := fmt.Sprint("n", i)
		w.nodes = append(w.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: name},
			},
			Status: corev1.NodeStatus{Allocatable: plenty, Capacity: plenty},
		})
		for j := range pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "east", Name: fmt.Sprintf("p%d%d", i, j), Labels: map[string]string{"app": "web"},
				CreationTimestamp: metav1.Time{Time: w.now.Add(-time.Hour)},
				OwnerReferences:   []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "owner-web"}},
			}, Spec: corev1.PodSpec{NodeName: name, SchedulerName: corev1.DefaultSchedulerName,
				Containers: []corev1.Container{{Name: "c", Image: "one"}}}}
			p.UID = types.UID("uid-" + p.Name)
			p.Status.Phase = corev1.PodRunning
			priority := int32(len(w.pods))
			p.Spec.Priority = &priority
			w.pods = append(w.pods, p)
		}
	}
	w.namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "ns-east"}}}
	return w
}

// with is the world with all its pods changed.
func (w *world) with(change func(*corev1.Pod)) *world {
	for _, p := range w.pods {
		change(p)
	}
	return w
}

// policyOf is a policy with one strategy, and limits of a cycle.
func policyOf(strategy string, args, limits tree) tree {
	out := tree{
		"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": []any{tree{
			"name": "p", "pluginConfig": []any{tree{"name": strategy, "args": args}},
			"plugins": tree{pointOf(strategy): tree{"enabled": []any{strategy}}},
		}},
	}
	maps.Copy(out, limits)
	return out
}

// TestWhatUpstreamMayDo: of all sets of pods in small clusters the oracle lets pass exactly those that
// upstream's algorithm can evict, worked out by hand, and they are all that upstream is seen to.
func TestWhatUpstreamMayDo(t *testing.T) {
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	alike := func(p *corev1.Pod) { p.Spec.Priority = nil }
	repelled := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
			}},
		}}
	}
	restarted := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 5}}
	}
	hungry := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	}
	restarts, low := tree{"podRestartThreshold": 3}, tree{
		"thresholds": tree{"cpu": 20}, "targetThresholds": tree{"cpu": 30},
	}
	one := tree{"maxNoOfPodsToEvictTotal": 1}
	for _, test := range []struct {
		name, strategy string
		w              *world
		args, limits   tree
		want           string
	}{
		// Sizes 0, 4, 4: the first of the two large domains, whichever it is, gives two pods and the second one pod.
		{"spread", policy.PluginTopologySpread, plain(4, 4, 0).with(spread), tree{}, nil, "p02 p03 p13, p03 p12 p13"},
		{"spread, one at most", policy.PluginTopologySpread, plain(4, 4, 0).with(spread), tree{}, one,
			"p02, p03, p12, p13"},
		{"spread, one of a node", policy.PluginTopologySpread, plain(4, 4, 0).with(spread), tree{},
			tree{"maxNoOfPodsToEvictPerNode": 1}, "p02 p13, p03 p12, p03 p13"},
		{"spread among equals", policy.PluginTopologySpread, plain(3, 0).with(spread).with(alike), tree{}, nil,
			"p00, p01, p02"},
		// Each node keeps two of eight: the last two of each node are evicted.
		{"duplicates", policy.PluginDuplicates, plain(4, 4, 0, 0), tree{}, nil, "p02 p03 p12 p13"},
		{"duplicates, one at most", policy.PluginDuplicates, plain(4, 4, 0, 0), tree{}, one, "p02, p12"},
		{"anti-affinity", policy.PluginInterPodAntiAffinity, plain(3, 0).with(repelled), tree{}, nil, "p00 p01"},
		{"anti-affinity of equals", policy.PluginInterPodAntiAffinity, plain(3, 0).with(repelled).with(alike), tree{}, nil,
			"p00 p01, p00 p02, p01 p02"},
		{"restarts, one at most", policy.PluginTooManyRestarts, plain(2, 2).with(restarted), restarts, one, "p00, p01"},
		{"utilization of equals", policy.PluginLowNodeUtilization, plain(3, 0).with(hungry).with(alike), low, nil,
			"p00, p01, p02"},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			o := newOracle(t)
			c := drawnCase{strategy: test.strategy, w: test.w, drawn: policyOf(test.strategy, test.args, test.limits)}
			if diff := cmp.Diff(test.want, o.allowed(t, c)); diff != "" {
				t.Errorf("allowed, want (-) and got (+):\n%s", diff)
			}
			const runs = 50
			for range runs {
				if seen := o.ask(t, c.w, c.drawn); o.denies(t, c, seen, false) != "" {
					t.Errorf("upstream is denied %v: %s", seen.sequence, o.denies(t, c, seen, false))
				}
			}
		})
	}
}

// allowed lists the sets of pods that the oracle lets pass in some order, by the names of the pods.
func (o *oracle) allowed(t *testing.T, c drawnCase) string {
	t.Helper()
	var sets []string
	for mask := range 1 << len(c.w.pods) {
		var keys, names []string
		for i, p := range c.w.pods {
			if mask&(1<<i) != 0 {
				keys, names = append(keys, keyOf(p)), append(names, p.Name)
			}
		}
		// Sequences are in order of the pods: of several nodes those of the first come first.
		if o.denies(t, c, newAnswer(keys, false), false) == "" {
			sets = append(sets, strings.Join(names, " "))
		}
	}
	slices.Sort(sets)
	return strings.Join(sets, ", ")
}

// TestTamperedAnswersAreDenied: in drawn clusters without limits and equals the oracle denies upstream's answer
// without one of its pods, and with one more. (Of topology spread there may be more than one answer then.)
func TestTamperedAnswersAreDenied(t *testing.T) {
	const wanted = 5 // cases of each strategy
	o := newOracle(t)
	for _, strategy := range slices.Sorted(maps.Keys(drawers)) {
		if strategy == policy.PluginTopologySpread {
			continue
		}
		tampered := 0
		for seed := uint64(1); tampered < wanted; seed++ {
			c := drawCase(seed, strategy)
			c.drawn = unlimited(c.drawn)
			theirs := o.ask(t, c.w, c.drawn)
			equals := c.w.ties && strategy != policy.PluginTooManyRestarts // which evicts all equals
			if equals || len(theirs.evicted) == 0 || len(theirs.twice) > 0 || theirs.failed {
				continue
			}
			tampered++
			if o.denies(t, c, newAnswer(theirs.sequence[1:], false), false) == "" {
				t.Errorf("seed %d, %s: not denied without %s", seed, strategy, theirs.sequence[0])
			}
			i := slices.IndexFunc(c.w.pods, func(p *corev1.Pod) bool { return !slices.Contains(theirs.evicted, keyOf(p)) })
			more := append(slices.Clone(theirs.sequence), keyOf(c.w.pods[i]))
			if o.denies(t, c, newAnswer(more, false), false) == "" {
				t.Errorf("seed %d, %s: not denied with %s", seed, strategy, more[len(more)-1])
			}
		}
	}
}

// TestSharesAreBounded: a run fails when too many of its cases are explained otherwise, or prove nothing.
func TestSharesAreBounded(t *testing.T) {
	for _, test := range []struct {
		row  row
		idle bool
		want int
	}{
		{row{cases: 100, evicting: leastEvicting, chance: mostChance, excepted: mostExcepted}, false, 0},
		{row{cases: 100, evicting: leastEvicting - 1}, true, 0},
		{row{cases: 100, evicting: 100, chance: mostChance + 1}, false, 1},
		{row{cases: 100, evicting: 100, excepted: mostExcepted + 1}, false, 1},
	} {
		if got := test.row.complaints(); len(got) != test.want || test.row.idle() != test.idle {
			t.Errorf("%+v: complaints %q, want %d; idle: %t, want %t", test.row, got, test.want, test.row.idle(), test.idle)
		}
	}
}
