package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/state"
)

type placementNode = state.NodeInfo

// preemptionSides are both sides over a cluster full of pods.
type preemptionSides struct {
	*sides
	plugin    *defaultpreemption.DefaultPreemption
	evaluator *preemption.Evaluator
	// offset is the number that upstream would draw; examined the nodes on which it found victims.
	offset   int32
	examined map[string]bool
}

// pinned is upstream's plugin with its randomness taken out.
type pinned struct {
	*defaultpreemption.DefaultPreemption
	sides *preemptionSides
}

func (p pinned) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	_, candidates = p.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return p.sides.offset % nodes, candidates
}

// emptyNominator is a nominator of no pods.
type emptyNominator struct{}

func (emptyNominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (emptyNominator) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (emptyNominator) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}
func (emptyNominator) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }

// drawPreemptionSides fills a cluster with pods. Where some of them are leaving, there is no
// hard spread: see TestLeavingPodsAndSpread.
func drawPreemptionSides(ctx context.Context, t *testing.T, g *placementtest.Generator) *preemptionSides {
	t.Helper()
	leaving := g.Chance(40)
	profile := g.Profile()
	profile.PercentageOfNodesToScore = 0
	if leaving {
		profile.Plugins = slices.DeleteFunc(profile.Plugins, func(c placement.PluginConfig) bool {
			return c.Name == names.PodTopologySpread
		})
	}
	s := newPreemptionSides(ctx, t, profile, preemptionArgs(g))
	c := g.Crowded(leaving)
	s.mustApply(t, c.Events()...)
	return s
}

// newPreemptionSides starts both sides on an empty cluster. The profile is without preemption.
func newPreemptionSides(
	ctx context.Context, t *testing.T, profile placement.ProfileConfig, args *configv1.DefaultPreemptionArgs,
) *preemptionSides {
	t.Helper()
	both := mustSides(ctx, t, profile)
	theirs, err := upstreamProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	profile.Preemption = upstreamPreemption
	profile.Plugins = append(slices.Clone(profile.Plugins),
		placement.PluginConfig{Name: names.DefaultPreemption, Args: args})
	if both.profile, err = placement.NewProfile(profile); err != nil {
		t.Fatal(err)
	}
	upstream := newUpstreamState(ctx)
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), theirs,
		frameworkruntime.WithSnapshotSharedLister(upstream.snapshot),
		frameworkruntime.WithClientSet(fake.NewClientset()),
		frameworkruntime.WithInformerFactory(upstream.listers),
		frameworkruntime.WithPodNominator(emptyNominator{}),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(upstream.listers.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		t.Fatal(err)
	}
	both.upstream = &oracle{upstream, f}
	s := &preemptionSides{sides: both}
	s.plugin, err = defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: *args.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   *args.MinCandidateNodesAbsolute,
	}, f, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	// No pod is killed.
	s.plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor,
		*corev1.Pod, string) error {
		return nil
	}
	s.evaluator = preemption.NewEvaluator(defaultpreemption.Name, f, pinned{s.plugin, s}, s.plugin.Executor)
	s.plugin.Evaluator = s.evaluator
	return s
}

func (s *preemptionSides) refresh(ctx context.Context) error { return s.upstream.refresh(ctx) }

// preemptUpstream is upstream's answer; false if the pod fits or the attempt fails before.
func (s *preemptionSides) preemptUpstream(
	ctx context.Context, t *testing.T, pod *corev1.Pod, offset uint64,
) (preempted, bool) {
	t.Helper()
	nodes, err := s.upstream.snapshot.NodeInfos().List()
	if err != nil || len(nodes) == 0 {
		return preempted{}, false
	}
	c := cycle{
		framework: s.upstream.framework, pod: pod, nodes: nodes, state: framework.NewCycleState(),
		diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	attempt := c.run(ctx)
	if attempt.Failed {
		s.unanswered++
	}
	if attempt.Failed || attempt.Message == "" {
		return preempted{}, false
	}
	m := c.diagnosis.NodeToStatus
	potential := s.potential(m)
	s.offset = int32(offset % uint64(max(len(potential), 1)))
	s.examined = map[string]bool{}
	a := preempted{Plans: map[string]string{}}
	indexer := s.upstream.listers.Core().V1().Pods().Informer().GetIndexer()
	if err := indexer.Add(pod); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = indexer.Delete(pod) }()
	result, status := s.plugin.PostFilter(ctx, c.state, pod, m)
	a.Message = status.Message()
	if result == nil || result.NominatingInfo == nil || result.NominatingInfo.NominatedNodeName == "" {
		return a, true
	}
	pdbs, err := listBudgets(s)
	if err != nil {
		t.Fatal(err)
	}
	first, enough := pinned{s.plugin, s}.GetOffsetAndNumCandidates(int32(len(potential)))
	candidates, _, err := s.evaluator.DryRunPreemption(ctx, c.state, pod, potential, pdbs, first, enough)
	if err != nil {
		t.Fatal(err)
	}
	for _, candidate := range candidates {
		var names []string
		for _, v := range candidate.Victims().Pods {
			names = append(names, v.Namespace+"/"+v.Name)
		}
		s.examined[candidate.Name()] = true
		a.Plans[candidate.Name()] = fmt.Sprintf("%d %s", candidate.Victims().NumPDBViolations, strings.Join(names, ","))
	}
	a.Node = s.evaluator.SelectCandidate(ctx, candidates).Name()
	if len(candidates) == len(potential) || int(enough) == len(potential) {
		a.Node = result.NominatingInfo.NominatedNodeName // nothing depends on the order of a map
	}
	return a, true
}
