package conformance

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

var (
	comparisons = flag.Int("comparisons", 2000, "how many decisions to compare at least")
	seed        = flag.Uint64("seed", 0, "seed of the first cluster; 0 draws one")
)

// podsPerCluster is how many decisions one cluster serves: building upstream's framework
// costs as much as several of them.
const podsPerCluster = 20

// TestPlacement: for the same cluster, pod and profile, our answer is upstream's.
func TestPlacement(t *testing.T) {
	prepareUpstream(t)
	first := *seed
	if first == 0 {
		first = rand.Uint64()>>1 + 1
	}
	t.Logf("first seed %d; replay with -args -seed=%d -comparisons=%d", first, first, *comparisons)
	seen := newTally()
	for i := uint64(0); seen.total < *comparisons; i++ {
		compareCluster(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this cluster with -args -seed=%d -comparisons=1", first+i)
		}
	}
	t.Log(seen)
	if seen.total < *comparisons {
		t.Fatalf("only %d comparisons ran, want %d", seen.total, *comparisons)
	}
	if missing := seen.lopsided(); *comparisons >= 2000 && len(missing) > 0 {
		t.Fatalf("the input is lopsided: %v", missing)
	}
}

func compareCluster(t *testing.T, seed uint64, seen *tally) {
	t.Helper()
	g := newGenerator(seed)
	c := g.cluster()
	config := g.profile()
	both, err := newSides(t.Context(), c, config)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for range podsPerCluster {
		pod, tie := g.incoming(&c), g.Uint64()
		want, diff := both.compare(t.Context(), pod, tie)
		seen.count(want)
		if diff == "" {
			continue
		}
		small := shrink(input{c, pod}, func(in input) bool {
			both, err := newSides(t.Context(), in.cluster, config)
			if err != nil {
				return false
			}
			_, diff := both.compare(t.Context(), in.pod, tie)
			return diff != ""
		})
		t.Errorf("seed %d, pod %s: upstream (-) and ours (+) differ:\n%s\nas they do for this, profile %+v:\n%s",
			seed, pod.Name, diff, config, small)
		return
	}
}

// sides are upstream and ours over the same cluster.
type sides struct {
	upstream *oracle
	profile  *placement.Profile
	in       placement.Input
}

func newSides(ctx context.Context, c cluster, config placement.ProfileConfig) (sides, error) {
	upstream, err := newOracle(ctx, c, config)
	if err != nil {
		return sides{}, fmt.Errorf("upstream: %w", err)
	}
	profile, err := placement.NewProfile(config)
	if err != nil {
		return sides{}, err
	}
	others, err := c.snapshot()
	return sides{upstream, profile, placement.Input{Nodes: nodeInfos(c), Objects: others}}, err
}

// compare returns upstream's answer and how ours differs, if it does; seed breaks our ties.
func (s sides) compare(ctx context.Context, pod *corev1.Pod, seed uint64) (want answer, diff string) {
	want = s.upstream.decide(ctx, pod)
	s.in.Seed = seed
	return want, cmp.Diff(want, ours(s.profile, s.in, pod))
}

func nodeInfos(c cluster) []*state.NodeInfo {
	list := make([]*state.NodeInfo, len(c.nodes))
	byName := map[string]*state.NodeInfo{}
	for i, n := range c.nodes {
		list[i] = state.NewNodeInfo(state.NewNode(n.DeepCopy()))
		byName[n.Name] = list[i]
	}
	for _, p := range c.pods {
		byName[p.Spec.NodeName].AddPod(state.NewPod(p.DeepCopy()))
	}
	return list
}

// ours is our answer in the shared words, checked to be consistent with itself.
func ours(profile *placement.Profile, in placement.Input, obj *corev1.Pod) answer {
	in.Pod, in.Limit, in.Details = state.NewPod(obj.DeepCopy()), -1, true
	r := profile.Evaluate(in)
	if r.Err != nil {
		return answer{Failed: true}
	}
	a := answer{Nodes: map[string]nodeAnswer{}}
	if r.FeasibleCount == 0 {
		a.Message, a.Plugins = r.Diagnosis.Message(), r.Diagnosis.Plugins()
	}
	for _, n := range r.Nodes {
		reasons := slices.Clone(n.Reasons)
		slices.Sort(reasons)
		answer := nodeAnswer{Code: n.Code.String(), Plugin: pluginOf(n), Reasons: reasons, Total: n.Total}
		if n.Code == placement.Success {
			answer.Scores = map[string]int64{}
			for _, s := range n.Scores {
				answer.Scores[s.Plugin] = s.Normalized * s.Weight
			}
		}
		a.Nodes[n.Node.Node.Name] = answer
	}
	if problem := consistent(profile, in, r); problem != "" {
		a.Message = problem
	}
	return a
}

// pluginOf is the plugin as upstream records it with the status: none for nodes that were
// narrowed out.
func pluginOf(n placement.NodeReport) string {
	if len(n.Reasons) == 1 && strings.HasPrefix(n.Reasons[0], "node(s) didn't satisfy plugin") {
		return ""
	}
	return n.Plugin
}

// consistent checks that the ranking is by total, and that the short answer is the long
// one cut off.
func consistent(profile *placement.Profile, in placement.Input, long placement.Result) string {
	for i := 1; i < len(long.Feasible); i++ {
		if long.Feasible[i].Total > long.Feasible[i-1].Total {
			return fmt.Sprintf("rank %d has more points than rank %d", i, i-1)
		}
	}
	in.Limit, in.Details = 0, false
	short := profile.Evaluate(in)
	if short.FeasibleCount != long.FeasibleCount {
		return fmt.Sprintf("%d feasible nodes without details, %d with", short.FeasibleCount, long.FeasibleCount)
	}
	for i := range short.Feasible {
		if short.Feasible[i].Node != long.Feasible[i].Node {
			return fmt.Sprintf("rank %d differs without details", i)
		}
	}
	return ""
}

// profile draws a profile of the plugins that both sides have.
func (g *generator) profile() placement.ProfileConfig {
	p := placement.ProfileConfig{SchedulerName: "default-scheduler", CrossNodeRules: placement.EvaluateCrossNode}
	for _, c := range placement.DefaultProfile("").Plugins {
		switch c.Name {
		case placement.NodeAffinity:
			c.Args = g.affinityArgs()
		case placement.NodeResourcesFit:
			c.Args = g.fitArgs()
		case placement.NodeResourcesBalancedAllocation:
			c.Args = g.balancedArgs()
		case placement.PodTopologySpread:
			c.Args = g.spreadArgs()
		case placement.InterPodAffinity:
			c.Args = g.podAffinityArgs()
		case placement.SchedulingGates, placement.PrioritySort, placement.NodeUnschedulable, placement.NodeName,
			placement.TaintToleration, placement.NodePorts, placement.ImageLocality, placement.DefaultBinder,
			placement.NodeDeclaredFeatures:
		default:
			continue
		}
		if g.chance(20) {
			c.Weight = pick[int32](g, 0, 1, 5, 100)
		}
		p.Plugins = append(p.Plugins, c)
	}
	return p
}

func (g *generator) affinityArgs() *configv1.NodeAffinityArgs {
	args := &configv1.NodeAffinityArgs{}
	if !g.chance(25) {
		return args
	}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
		}}
	}
	args.AddedAffinity = &corev1.NodeAffinity{}
	if g.chance(60) {
		args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{in("zone", "a", "b")},
		}
	}
	if g.chance(60) {
		args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 30, Preference: in("disk", "ssd")},
		}
	}
	return args
}

func (g *generator) fitArgs() *configv1.NodeResourcesFitArgs {
	args := &configv1.NodeResourcesFitArgs{
		IgnoredResources:      some(g, 10, gpu),
		IgnoredResourceGroups: some(g, 10, "vendor.io"),
	}
	if g.chance(40) {
		return args
	}
	args.ScoringStrategy = &configv1.ScoringStrategy{
		Type:      pick(g, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio),
		Resources: g.resourceSpecs(5),
	}
	if args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
		args.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{
			Shape: pick(g,
				[]configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
				[]configv1.UtilizationShapePoint{
					{Utilization: 10, Score: 9}, {Utilization: 60, Score: 1}, {Utilization: 70, Score: 5},
				},
			),
		}
	}
	return args
}

func (g *generator) balancedArgs() *configv1.NodeResourcesBalancedAllocationArgs {
	if g.chance(60) {
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	}
	return &configv1.NodeResourcesBalancedAllocationArgs{Resources: g.resourceSpecs(1)}
}

func (g *generator) resourceSpecs(maxWeight int64) []configv1.ResourceSpec {
	var specs []configv1.ResourceSpec
	for _, name := range some(g, 60, "cpu", "memory", "ephemeral-storage", gpu, hugepage) {
		specs = append(specs, configv1.ResourceSpec{Name: name, Weight: 1 + g.Int64N(maxWeight)})
	}
	return specs
}
