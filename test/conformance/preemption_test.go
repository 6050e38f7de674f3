package conformance

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// preemptorsPerCluster is how many pods want in to one cluster.
const preemptorsPerCluster = 20

// upstreamPreemption makes a profile preempt as kube-scheduler does.
var upstreamPreemption = placement.PreemptionConfig{
	PDB: placement.PDBBestEffort, SameNodeOnly: true, NoKeepers: true, ChargeLeaving: true, KeepDevices: true,
}

// TestPreemption: configured to preempt as kube-scheduler does, we find the same victims on every node, choose a node
// that upstream could choose (it draws among equals), and report the same if there is none.
func TestPreemption(t *testing.T) {
	seen := compareAllPreemptions(t, placementtest.Crowd)
	if *comparisons >= 2000 && seen.lacksCoverage() {
		lacks(t, "%+v", *seen)
	}
}

// TestPreemptionForVolumes is the same in clusters most of whose pods have volumes: disks and claims that
// only one pod may use become free with their users.
func TestPreemptionForVolumes(t *testing.T) {
	crowd := placementtest.Crowd
	crowd.Volumes = 60
	seen := compareAllPreemptions(t, crowd)
	if *comparisons >= 2000 && (seen.preempted < seen.total/20 || seen.forClaims == 0) {
		lacks(t, "%+v", *seen)
	}
}

func compareAllPreemptions(t *testing.T, size placementtest.Size) *preemptionTally {
	t.Helper()
	withoutDevices(t)
	first := firstSeed(t)
	seen := &preemptionTally{}
	for i := uint64(0); seen.total < *comparisons; i++ {
		if diff := comparePreemptions(t, first+i, size, seen); diff != "" {
			t.Fatalf("upstream (-) and ours (+) differ:\n%s\nreplay with -args -seed=%d -comparisons=1", diff, first+i)
		}
	}
	t.Logf("%+v", *seen)
	if seen.unanswered*100 > mostUnanswered*seen.total && *comparisons >= 2000 {
		t.Errorf("upstream failed in %d attempts beside %d, want %d%% at most", seen.unanswered, seen.total, mostUnanswered)
	}
	return seen
}

// preemptionTally counts the outcomes. forClaims are those whose pod has a claim that is for one pod, which another
// pod had.
type preemptionTally struct {
	total, preempted, inVain, ineligible, several, exceeding, limited, tied, forClaims int
	// unanswered are attempts that end with an error of upstream's before it preempts.
	unanswered int
}

func (p *preemptionTally) lacksCoverage() bool {
	return p.preempted < p.total/10 || p.inVain < p.total/20 || p.ineligible < p.total/100 ||
		p.several < p.total/20 || p.exceeding < p.total/100 || p.limited < p.total/100 || p.tied == 0
}

// preempted is one preemption in the words both sides share.
type preempted struct {
	Message string
	// Node is the node taken; for ours, upstream's if the two cost the same.
	Node string
	// Plans are the victims per node, in order, and how many of them exceed budgets.
	Plans map[string]string
}

func comparePreemptions(
	t *testing.T, seed uint64, size placementtest.Size, seen *preemptionTally,
) (diff string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := placementtest.New(seed)
	g.Size = size
	s := drawPreemptionSides(ctx, t, g)
	defer func() { seen.unanswered += s.unanswered }()
	for range preemptorsPerCluster {
		pod := g.Preemptor(&s.upstream.cluster)
		if namesake(pod, s.upstream.cluster.Pods) {
			continue
		}
		if err := s.refresh(ctx); err != nil {
			t.Fatal(err)
		}
		offset := g.Uint64() >> 1
		want, ok := s.preemptUpstream(ctx, t, pod, offset)
		if !ok {
			continue // it fits, or the attempt fails
		}
		got := s.preemptOurs(pod, offset, want.Node, seen)
		if !reflect.DeepEqual(want, got) {
			return fmt.Sprintf("seed %d, pod %s:\n%s", seed, pod.Name, cmp.Diff(want, got))
		}
		seen.count(want)
		if want.Node != "" && s.lacksClaim(pod) {
			seen.forClaims++
		}
	}
	return ""
}

// namesake reports whether a pod of another namespace has a claim that is called as one of the pod's:
// see TestSharedClaimPreempted.
func namesake(pod *corev1.Pod, pods []*corev1.Pod) bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names[v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Namespace != pod.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && names[v.PersistentVolumeClaim.ClaimName]
		})
	})
}

// lacksClaim reports whether a pod fits nowhere because another has a claim that is for one pod.
func (s *preemptionSides) lacksClaim(pod *corev1.Pod) bool {
	r := s.profile.Evaluate(s.input(pod, 0))
	return strings.Contains(r.Diagnosis.Message(), "ReadWriteOncePod")
}

func (p *preemptionTally) count(a preempted) {
	p.total++
	switch {
	case strings.Contains(a.Message, "not eligible"):
		p.ineligible++
	case a.Node == "":
		p.inVain++
	default:
		p.preempted++
	}
	if strings.Contains(a.Plans[a.Node], ",") {
		p.several++
	}
	if a.Node != "" && !strings.HasPrefix(a.Plans[a.Node], "0 ") {
		p.exceeding++
	}
}

// preemptOurs is our answer. Each node is asked about alone as well.
func (s *preemptionSides) preemptOurs(pod *corev1.Pod, seed uint64, upstreams string, seen *preemptionTally) preempted {
	in := preempt.Input{Input: s.input(pod, seed)}
	in.Budgets = preempt.NewBudgets(in.Objects, nil)
	r := preempt.Run(s.profile, in)
	a := preempted{Message: r.Message, Plans: map[string]string{}}
	if r.Err != nil {
		a.Message = "error: " + r.Err.Error()
	}
	if r.Node == nil {
		return a
	}
	costs := map[string]preempt.Cost{}
	for _, n := range in.Nodes {
		alone := in
		alone.Candidates = []*placementNode{n}
		if one := preempt.Run(s.profile, alone); one.Node != nil {
			name := n.Node.Name
			a.Plans[name], costs[name] = ourPlan(one), one.Cost
		}
	}
	if r.Found < len(a.Plans) { // a limited search: which were looked at is upstream's to say
		seen.limited++
		for name := range a.Plans {
			if !s.examined[name] {
				delete(a.Plans, name)
			}
		}
	}
	a.Node = r.Node.Node.Name
	if cost, ok := costs[upstreams]; ok && cost == r.Cost && a.Node != upstreams && s.examined[a.Node] {
		seen.tied++
		a.Node = upstreams
	}
	return a
}

func ourPlan(r preempt.Result) string {
	var names []string
	for _, v := range r.Victims {
		names = append(names, v.Pod.Key())
	}
	return fmt.Sprintf("%d %s", r.Cost.Violations, strings.Join(names, ","))
}

func listBudgets(s *preemptionSides) ([]*policyv1.PodDisruptionBudget, error) {
	return s.evaluator.PdbLister.List(labels.Everything())
}

// potential are the nodes that upstream would try, in the order of ours.
func (s *preemptionSides) potential(m fwk.NodeToStatusReader) []fwk.NodeInfo {
	var list []fwk.NodeInfo
	for _, n := range s.view.Nodes() {
		info, err := s.upstream.snapshot.Get(n.Node.Name)
		if err == nil && m.Get(n.Node.Name).Code() == fwk.Unschedulable {
			list = append(list, info)
		}
	}
	return list
}

func preemptionArgs(g *placementtest.Generator) *configv1.DefaultPreemptionArgs {
	percentage, absolute := int32(100), int32(0)
	if g.Chance(40) {
		percentage, absolute = int32(g.IntN(60)), int32(1+g.IntN(4))
	}
	return &configv1.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute,
	}
}
