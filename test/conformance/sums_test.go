package conformance

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/state"
)

// sums are the sums that a NodeInfo keeps, by resource; nothing that is zero.
type sums struct {
	Allocatable, Requested, NonZero map[string]int64
	Pods                            []string // UIDs
}

// sumsDiff is how our NodeInfos differ from upstream's after all changes so far.
func (s *sides) sumsDiff(ctx context.Context) (string, error) {
	if err := s.upstream.refresh(ctx); err != nil {
		return "", err
	}
	nodes, err := s.upstream.snapshot.NodeInfos().List()
	if err != nil {
		return "", err
	}
	want, got := map[string]sums{}, map[string]sums{}
	for _, n := range nodes {
		want[n.Node().Name] = upstreamSums(n)
	}
	for _, n := range s.view.Nodes() {
		got[n.Node.Name] = ourSums(n)
	}
	if reflect.DeepEqual(want, got) {
		return "", nil
	}
	return cmp.Diff(want, got), nil
}

func upstreamSums(n fwk.NodeInfo) sums {
	s := sums{
		Allocatable: amounts(n.GetAllocatable(), n.GetAllocatable().GetAllowedPodNumber()),
		Requested:   amounts(n.GetRequested(), len(n.GetPods())),
		NonZero:     amounts(n.GetNonZeroRequested(), 0),
	}
	for _, p := range n.GetPods() {
		s.Pods = append(s.Pods, string(p.GetPod().UID))
	}
	slices.Sort(s.Pods)
	return s
}

func amounts(r fwk.Resource, pods int) map[string]int64 {
	m := map[string]int64{
		string(corev1.ResourceCPU):              r.GetMilliCPU(),
		string(corev1.ResourceMemory):           r.GetMemory(),
		string(corev1.ResourceEphemeralStorage): r.GetEphemeralStorage(),
		string(corev1.ResourcePods):             int64(pods),
	}
	for name, v := range r.GetScalarResources() {
		m[string(name)] = v
	}
	maps.DeleteFunc(m, func(_ string, v int64) bool { return v == 0 })
	return m
}

func ourSums(n *state.NodeInfo) sums {
	s := sums{Allocatable: n.Node.Allocatable.Map(), Requested: n.Requested.Map(), NonZero: n.NonZeroRequested.Map()}
	for p := range n.Pods() {
		s.Pods = append(s.Pods, p.UID)
	}
	return s
}
