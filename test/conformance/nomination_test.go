package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// mostSpared is the share of cases, in percent, in which we evict no pod on a node where a pod as important is
// nominated, and upstream does.
const mostSpared = 2

// TestNominations: for a pod that may be nominated to a node, next to others that are, whoever wrote the names, we come
// to the same result as upstream's scheduler, and the pod's nominatedNodeName is the same after the attempt.
func TestNominations(t *testing.T) {
	withoutDevices(t)
	first, seen := firstSeed(t), map[string]int{}
	cases := max(*comparisons/extenderShare, 1)
	for i := range uint64(cases) {
		compareNominations(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	if *comparisons >= 2000 && seen["spared"]*100 > mostSpared*cases {
		t.Errorf("no victims beside nominated pods in %d of %d cases, want %d%% at most", seen["spared"], cases, mostSpared)
	}
	for _, kind := range []string{"cleared", "kept", "nominated", "placed", "placed elsewhere", "held back"} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

func compareNominations(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	c := newNominationCase(rng)
	given, cfg := configv1.KubeSchedulerConfiguration{}, extendedProfile(nil)
	if rng.IntN(4) == 0 {
		cfg.Plugins = slices.DeleteFunc(cfg.Plugins, func(p placement.PluginConfig) bool {
			return p.Name == names.DefaultPreemption
		})
		given.Profiles = []configv1.KubeSchedulerProfile{{Plugins: &configv1.Plugins{PostFilter: configv1.PluginSet{
			Disabled: []configv1.Plugin{{Name: "*"}},
		}}}}
	}
	want, err := c.upstreamWith(t.Context(), given, nil, nil)
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	profile, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := newShardDriver(t.Context(), profile, nil, nil).attempt(c)
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	if want.Node != "" && got.Node != "" || want.Nominated != "" && got.Nominated != "" {
		// Which of the best nodes it is, is compared elsewhere.
		got.Node, got.Nominated, got.Field = want.Node, want.Nominated, want.Field
	}
	switch {
	case want.Nominated != "" && got.Nominated == "" && c.isBesideNominated(want.Nominated):
		seen["spared"]++
		return
	case want.Nominated == "" && strings.Contains(want.Message, "preemption:"):
		// The reasons that preemption counts are compared in TestPreemption.
		want.Message, _, _ = strings.Cut(want.Message, " preemption:")
		got.Message, _, _ = strings.Cut(got.Message, " preemption:")
	}
	want.Plugins = slices.DeleteFunc(want.Plugins, func(p string) bool { return p == names.DefaultPreemption })
	got.Plugins = slices.DeleteFunc(got.Plugins, func(p string) bool { return p == names.DefaultPreemption })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
	c.countNomination(want, seen)
}

func (c *extendedCase) countNomination(v attemptResult, seen map[string]int) {
	was := c.pod.Status.NominatedNodeName
	switch {
	case v.Node != "" && was != "" && v.Node != was:
		seen["placed elsewhere"]++
	case v.Node != "":
		seen["placed"]++
	case v.Nominated != "":
		seen["nominated"]++
	case was != "" && v.Field == "":
		seen["cleared"]++
	case was != "":
		seen["kept"]++
	}
	if v.Node == "" && c.roomForOne() {
		seen["held back"]++
	}
}

// isBesideNominated reports whether a pod that is as important is nominated to a node.
func (c *extendedCase) isBesideNominated(node string) bool {
	return slices.ContainsFunc(c.waiting, func(p *corev1.Pod) bool {
		return p.Status.NominatedNodeName == node && *p.Spec.Priority >= *c.pod.Spec.Priority
	})
}

// roomForOne reports whether the pod would fit on a node if no pod were nominated.
func (c *extendedCase) roomForOne() bool {
	for _, n := range c.nodes {
		used := c.pod.Spec.Containers[0].Resources.Requests.Cpu().DeepCopy()
		for _, p := range c.existing {
			if p.Spec.NodeName == n.Name {
				used.Add(*p.Spec.Containers[0].Resources.Requests.Cpu())
			}
		}
		if !n.Spec.Unschedulable && used.Cmp(*n.Status.Allocatable.Cpu()) <= 0 {
			return true
		}
	}
	return false
}

// newNominationCase is a cluster that is nearly full, a pod that may be nominated to a node that suits, does not, or
// does not exist, and other pods that are nominated.
func newNominationCase(rng *rand.Rand) *extendedCase {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	priority := func() *int32 { return ptr([]int32{0, 1, 100}[rng.IntN(3)]) }
	c := &extendedCase{}
	for i := range rng.IntN(5) {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprintf("uid-n%d", i)), ResourceVersion: fmt.Sprint(10 + i),
			},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods: resource.MustParse("110"),
			}},
		}
		n.Spec.Unschedulable = chance(10)
		n.Status.Capacity = n.Status.Allocatable
		c.nodes = append(c.nodes, n)
		for j := range 2 + rng.IntN(3) {
			p := extendedPod(fmt.Sprintf("s%d-%d", i, j), "1")
			p.Spec.NodeName, p.Spec.Priority = n.Name, priority()
			p.Status.Phase = corev1.PodRunning
			if chance(15) {
				leave(p, chance(70))
			}
			c.existing = append(c.existing, p)
		}
	}
	name := func() string {
		if i := rng.IntN(len(c.nodes) + 1); i < len(c.nodes) {
			return c.nodes[i].Name
		}
		return "ghost"
	}
	for i := range rng.IntN(3) {
		p := extendedPod(fmt.Sprint("w", i), fmt.Sprint(1+rng.IntN(2)))
		p.Spec.Priority, p.Status.NominatedNodeName = priority(), name()
		c.waiting = append(c.waiting, p)
	}
	c.pod = extendedPod("p", fmt.Sprint(1+rng.IntN(5)))
	c.pod.Spec.Priority = priority()
	if chance(80) {
		c.pod.Status.NominatedNodeName = name()
	}
	if chance(30) {
		c.pod.Spec.PreemptionPolicy = ptr(corev1.PreemptNever)
	}
	return c
}

// leave makes a pod one that is being deleted, possibly because a scheduler has preempted it.
func leave(p *corev1.Pod, preempted bool) {
	p.DeletionTimestamp = &metav1.Time{}
	p.Finalizers = []string{"example.com/wait"}
	if preempted {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		}}
	}
}
