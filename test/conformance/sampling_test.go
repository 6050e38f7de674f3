package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// decisionsPerSample is how many decisions one big cluster serves, one after the other, so
// that the search starts in many places.
const decisionsPerSample = 30

// TestSampling: a profile that looks at a share of the nodes looks at those that
// kube-scheduler's own SchedulePod looks at, and its choice is among our best.
func TestSampling(t *testing.T) {
	prepareUpstream()
	// A batch takes the next node in line after the last equal pod's.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.OpportunisticBatching, false)
	first := firstSeed(t)
	partial, total := 0, 0
	for i := uint64(0); total < max(1, *comparisons/10); i++ {
		cut, all := compareSamples(t, first+i)
		partial, total = partial+cut, total+all
	}
	t.Logf("compared %d decisions, %d of which did not look at all nodes", total, partial)
	if *comparisons >= 2000 && partial < total/20 {
		lacks(t, "hardly any search ended early")
	}
}

// compareSamples places pods in one cluster; it returns how many, and for how many of them
// not all nodes were looked at.
func compareSamples(t *testing.T, seed uint64) (partial, total int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newSampling(ctx, t, seed)
	for total = 0; total < decisionsPerSample && !s.failed; total++ {
		cut, diff := s.decide(t)
		if diff != "" {
			t.Errorf("pod %s, start %d: %s", s.pod.Name, s.start, diff)
			t.Fatalf("replay this cluster with -args -seed=%d -comparisons=1", seed)
		}
		if cut {
			partial++
		}
	}
	return partial, total
}

// sampling is one cluster in which pods are placed one by one.
type sampling struct {
	*sides
	g         *placementtest.Generator
	scheduler *scheduler.Scheduler
	pod       *corev1.Pod // the last one
	start     int         // ours, for the next one
	// failed: the last attempt was an error on both sides. Ours then does not report how far the search had come, and
	// upstream's next search begins there.
	failed bool
}

func newSampling(ctx context.Context, t *testing.T, seed uint64) *sampling {
	t.Helper()
	g := placementtest.New(seed)
	g.Size = placementtest.Size{MinNodes: 250, MaxNodes: 500, MaxPodsPerNode: 1}
	config := g.Profile()
	config.PercentageOfNodesToScore = int32(1 + g.IntN(1+g.IntN(100))) // often few
	both := mustSides(ctx, t, config)
	profile, err := upstreamProfile(config)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	listers := scheduler.NewInformerFactory(client, 0)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	s, err := scheduler.New(ctx, client, listers, nil, recorder,
		scheduler.WithProfiles(*profile), scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(&config.PercentageOfNodesToScore))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Profiles[config.SchedulerName]
	both.upstream = &oracle{
		&upstreamState{cache: s.Cache, snapshot: f.SnapshotSharedLister().(*cache.Snapshot), listers: listers}, f,
	}
	c := g.Cluster()
	// The order in which upstream's node tree meets zones is that of our ZoneOrder.
	slices.SortStableFunc(c.Nodes, func(a, b *corev1.Node) int {
		return cmp.Compare(a.Labels[corev1.LabelTopologyZone], b.Labels[corev1.LabelTopologyZone])
	})
	both.mustApply(t, c.Events()...)
	return &sampling{sides: both, g: g, scheduler: s}
}

// decide places another pod on both sides, where upstream wants it. cut reports that not all nodes were looked at.
func (s *sampling) decide(t *testing.T) (cut bool, diff string) {
	t.Helper()
	s.pod = s.g.Incoming(&s.upstream.cluster)
	s.pod.Spec.SchedulingGates = nil // SchedulePod leaves them to the queue
	s.pod.Status.NominatedNodeName = ""
	host, result, err := s.schedulePod(t.Context())
	in := s.input(s.pod, s.g.Uint64())
	in.Start = s.start
	r := s.profile.Evaluate(in)
	if diff := s.engineDiff(in, r); diff != "" {
		return false, "the engine: " + diff
	}
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		if r.Err != nil || r.FeasibleCount != 0 || r.Diagnosis.Message() != err.Error() {
			return false, fmt.Sprintf("upstream: %v; ours: %d feasible, %q", err, r.FeasibleCount, r.Diagnosis.Message())
		}
	case err != nil && r.Err == nil || err == nil && r.Err != nil:
		return false, fmt.Sprintf("upstream: %v; ours: %v", err, r.Err)
	case err != nil:
		s.failed = true
		return false, ""
	case result.FeasibleNodes != r.FeasibleCount || result.EvaluatedNodes != r.Examined:
		return false, fmt.Sprintf("upstream found %d in %d nodes, we %d in %d",
			result.FeasibleNodes, result.EvaluatedNodes, r.FeasibleCount, r.Examined)
	case !amongBest(r, host):
		return false, fmt.Sprintf("upstream takes %s, we %s with %d points", host, r.Feasible[0].Node.Node.Name,
			r.Feasible[0].Total)
	default:
		placed := s.pod.DeepCopy()
		placed.Spec.NodeName = host
		s.mustApply(t, event(nil, placed))
	}
	s.start = (s.start + r.Examined) % r.NodesTotal
	return r.Examined < r.NodesTotal && r.Examined > 0, ""
}

func (s *sampling) schedulePod(ctx context.Context) (host string, r scheduler.ScheduleResult, err error) {
	if err := s.upstream.refresh(ctx); err != nil {
		return "", r, err
	}
	info, _ := framework.NewPodInfo(s.pod.DeepCopy()) // upstream's queue drops the error too: terms it cannot parse
	r, err = s.scheduler.SchedulePod(ctx, s.upstream.framework, framework.NewCycleState(),
		&framework.QueuedPodInfo{PodInfo: info})
	return r.SuggestedHost, r, err
}

// amongBest reports whether the node has as many points as the first.
func amongBest(r placement.Result, node string) bool {
	for _, f := range r.Feasible {
		if f.Node.Node.Name == node {
			return f.Total == r.Feasible[0].Total
		}
	}
	return false
}
