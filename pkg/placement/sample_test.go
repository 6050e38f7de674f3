package placement_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// sampling returns the default profile with a percentage of nodes to score.
func sampling(t testing.TB, percent int32) *placement.Profile {
	t.Helper()
	cfg := placement.DefaultProfile("default-scheduler")
	cfg.PercentageOfNodesToScore = percent
	return newProfile(t, cfg)
}

func newProfile(t testing.TB, cfg placement.ProfileConfig) *placement.Profile {
	t.Helper()
	p, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSampleSize checks upstream's formula, except that 0 means all nodes. The rows with 1,000 and 6,000 nodes are
// those of upstream's TestNumFeasibleNodesToFind.
func TestSampleSize(t *testing.T) {
	tests := []struct {
		percent     int32
		nodes, want int
	}{
		{0, 10, 10}, {0, 1000, 1000}, {0, 6000, 6000},
		{40, 10, 10}, {40, 1000, 400}, {40, 6000, 2400},
		{40, 0, 0}, {1, 99, 99}, {1, 100, 100}, {1, 101, 100}, {50, 100, 100}, {50, 201, 100}, {50, 202, 101},
		{1, 10_000, 100}, {1, 10_100, 101}, {33, 1000, 330}, {100, 5000, 5000}, {99, 100_000, 99_000},
	}
	for _, test := range tests {
		if got := sampling(t, test.percent).SampleSize(test.nodes); got != test.want {
			t.Errorf("%d %% of %d nodes: %d, want %d", test.percent, test.nodes, got, test.want)
		}
	}
	unscored := placement.ProfileConfig{SchedulerName: "s", Plugins: []placement.PluginConfig{
		{Name: names.NodeUnschedulable}, {Name: names.NodeAffinity, Points: placement.Filtering},
	}}
	if got := newProfile(t, unscored).SampleSize(1000); got != 1000 {
		t.Errorf("no percentage and no scores: %d, want all 1000", got)
	}
	unscored.PercentageOfNodesToScore = 40
	for nodes, want := range map[int]int{0: 0, 1: 1, 50: 1, 1000: 1} {
		if got := newProfile(t, unscored).SampleSize(nodes); got != want {
			t.Errorf("no scores, %d nodes: %d, want %d", nodes, got, want)
		}
	}
}

func TestPercentageOutOfRange(t *testing.T) {
	for _, percent := range []int32{-1, 101} {
		_, err := placement.NewProfile(placement.ProfileConfig{SchedulerName: "s", PercentageOfNodesToScore: percent})
		if want := fmt.Sprintf("percentageOfNodesToScore is %d, want 0 (all) to 100", percent); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestZoneOrder checks the order: one node of each zone in turn, zones by name.
func TestZoneOrder(t *testing.T) {
	inZones := func(zones ...string) []*state.NodeInfo {
		list := nodes(len(zones))
		for i, zone := range zones {
			if region, name, ok := strings.Cut(zone, "/"); ok {
				list[i].Node.Object.Labels = map[string]string{
					corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: name,
				}
			}
		}
		return list
	}
	tests := map[string]struct {
		nodes []*state.NodeInfo
		want  []int
	}{
		"none":            {nil, []int{}},
		"no zones":        {inZones("", "", ""), []int{0, 1, 2}},
		"one zone":        {inZones("r/a", "r/a", "r/a"), []int{0, 1, 2}},
		"uneven zones":    {inZones("r/b", "r/b", "r/b", "r/a", "r/c", "r/a"), []int{3, 0, 4, 5, 1, 2}},
		"some without":    {inZones("r/a", "", "r/a", ""), []int{1, 0, 3, 2}},
		"regions, a zone": {inZones("s/a", "r/a", "s/a", "r/a"), []int{1, 0, 3, 2}},
	}
	for name, test := range tests {
		if diff := gocmp.Diff(test.want, placement.ZoneOrder(test.nodes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSamplingRotates checks that every pod's search continues with the nodes after those of the pod before,
// starting with the first of them, and eventually covers every node.
func TestSamplingRotates(t *testing.T) {
	cluster := nodes(500)
	profile := sampling(t, 30)
	pod := changed(statetest.Pod("default", "p", "cpu", "1"))
	start, seen := 0, map[string]int{}
	for round := range 10 {
		r := profile.Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: start, Limit: -1})
		if r.FeasibleCount != 150 || r.Examined != 150 || r.NodesTotal != 500 {
			t.Fatalf("round %d: %d feasible, %d examined, %d in all, want 150, 150, 500",
				round, r.FeasibleCount, r.Examined, r.NodesTotal)
		}
		for _, s := range r.Feasible {
			seen[s.Node.Node.Name]++
		}
		if start = (start + r.Examined) % r.NodesTotal; start != (round+1)*150%500 {
			t.Fatalf("round %d: next start %d, want %d", round, start, (round+1)*150%500)
		}
	}
	for _, n := range cluster {
		if seen[n.Node.Name] != 3 {
			t.Errorf("%s looked at %d times in 3 turns round the cluster", n.Node.Name, seen[n.Node.Name])
		}
	}
}

// TestSamplingFindsWhatAFullSearchFinds checks that a sample consists of the first feasible nodes of a full search
// in zone order from Start, scored among themselves, and that the message of a pod that fits nowhere covers every
// node.
func TestSamplingFindsWhatAFullSearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := nodes(rapid.IntRange(1, 400).Draw(t, "nodes"))
		closed := rapid.SampledFrom([]int{0, 3, 9, 10}).Draw(t, "closed of ten")
		for i, n := range cluster {
			n.Node.Object.Labels = map[string]string{corev1.LabelTopologyZone: fmt.Sprint(i * i % 7)}
			n.Node.Object.Spec.Unschedulable = (i*7+i/10)%10 < closed
		}
		cfg := placement.DefaultProfile("default-scheduler")
		full, err := placement.NewProfile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.PercentageOfNodesToScore = rapid.Int32Range(1, 100).Draw(t, "percent")
		sampler, err := placement.NewProfile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		in := placement.Input{
			Pod: changed(statetest.Pod("default", "p", "cpu", "1")), Nodes: cluster, Limit: -1,
			Start: rapid.OneOf(rapid.IntRange(0, 800), rapid.Just(math.MaxInt)).Draw(t, "start"),
		}
		got, all := sampler.Evaluate(in), full.Evaluate(in)
		if got.Err != nil || all.Err != nil {
			t.Fatal(got.Err, all.Err)
		}
		in.Unsampled = true
		if r := sampler.Evaluate(in); r.Examined != all.Examined || r.FeasibleCount != all.FeasibleCount {
			t.Fatalf("%d examined, %d feasible without sampling, want %d, %d",
				r.Examined, r.FeasibleCount, all.Examined, all.FeasibleCount)
		}
		if diff := gocmp.Diff(all.Diagnosis.Message(), got.Diagnosis.Message()); len(all.Feasible) == 0 && diff != "" {
			t.Fatalf("message (-full +sample):\n%s", diff)
		}
		want, examined := expectSample(cluster, in.Start, sampler.SampleSize(len(cluster)))
		if got.Examined != examined || got.FeasibleCount != len(want) {
			t.Fatalf("%d examined, %d feasible, want %d, %d", got.Examined, got.FeasibleCount, examined, len(want))
		}
		for _, s := range got.Feasible {
			if !slices.Contains(want, s.Node) {
				t.Fatalf("%s is not in the sample", s.Node.Node.Name)
			}
		}
	})
}

// expectSample is the rule in its simplest form: list the nodes from start on, and cut the list before the first
// open node too many.
func expectSample(cluster []*state.NodeInfo, start, size int) (open []*state.NodeInfo, examined int) {
	order := placement.ZoneOrder(cluster)
	start %= len(order)
	for _, i := range append(order[start:], order[:start]...) {
		if !cluster[i].Node.Object.Spec.Unschedulable {
			if len(open) == size {
				break
			}
			open = append(open, cluster[i])
		}
		examined++
	}
	return open, examined
}

// TestSamplingNarrowed checks that only the nodes to which rules narrow the search are sampled, and that the
// message of a pod that fits on none of them covers the others too.
func TestSamplingNarrowed(t *testing.T) {
	cluster := nodes(300)
	var few []string
	for _, n := range cluster[100:103] {
		few = append(few, n.Node.Name)
	}
	profile := sampling(t, 10)
	pod := changed(statetest.Pod("default", "p", "cpu", "1"), named(few...))
	r := profile.Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: 299, Limit: -1})
	if r.FeasibleCount != 3 || r.Examined != 3 {
		t.Errorf("%d feasible, %d examined, want 3 and 3", r.FeasibleCount, r.Examined)
	}
	pod = changed(statetest.Pod("default", "p", "cpu", "100"), named(few...))
	r = profile.Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: 7, Details: true})
	want := "0/300 nodes are available: 297 node(s) didn't satisfy plugin(s) [NodeAffinity], 3 Insufficient cpu."
	if r.Diagnosis.Message() != want || r.Examined != 3 || len(r.Nodes) != 300 {
		t.Errorf("%q, %d examined, %d reports, want %q, 3, 300", r.Diagnosis.Message(), r.Examined, len(r.Nodes), want)
	}
}

// TestSamplingNominated checks that the node that a pod has been nominated to is used wherever the search would
// have started, and that the start does not change.
func TestSamplingNominated(t *testing.T) {
	cluster := nodes(300)
	profile := sampling(t, 10)
	pod := changed(statetest.Pod("default", "p", "cpu", "1"), func(p *corev1.Pod) {
		p.Status.NominatedNodeName = cluster[250].Node.Name
	})
	for _, details := range []bool{false, true} {
		r := profile.Evaluate(placement.Input{Pod: pod, Nodes: cluster, Details: details})
		if len(r.Feasible) != 1 || r.Feasible[0].Node != cluster[250] || r.Examined != 0 {
			t.Errorf("details %t: %+v", details, r)
		}
	}
	cluster[250].Node.Object.Spec.Unschedulable = true
	r := profile.Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: 200})
	if r.FeasibleCount != 100 || r.Examined != 101 {
		t.Errorf("%d feasible, %d examined, want 100 and 101", r.FeasibleCount, r.Examined)
	}
}

// TestSamplingReports checks that nodes that were not evaluated are in no report.
func TestSamplingReports(t *testing.T) {
	cluster := nodes(300)
	for _, n := range cluster[:50] {
		n.Node.Object.Spec.Unschedulable = true
	}
	r := sampling(t, 10).Evaluate(placement.Input{
		Pod: changed(statetest.Pod("default", "p", "cpu", "1")), Nodes: cluster, Start: 290, Details: true, Limit: -1,
	})
	counts := map[rule.Code]int{}
	for _, n := range r.Nodes {
		counts[n.Code]++
	}
	want := map[rule.Code]int{rule.Success: 100, rule.UnschedulableAndUnresolvable: 50}
	if diff := gocmp.Diff(want, counts); diff != "" || r.Examined != 150 || len(r.Feasible) != 100 {
		t.Errorf("%d examined, %d ranked, reports (-want +got):\n%s", r.Examined, len(r.Feasible), diff)
	}
}

// TestNoSampling checks that the default profile ignores Start and examines all nodes.
func TestNoSampling(t *testing.T) {
	cluster := nodes(300)
	pod := changed(statetest.Pod("default", "p", "cpu", "1"))
	var results []placement.Result
	for _, start := range []int{0, 123} {
		r := defaultProfile(t).Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: start, Limit: -1, Seed: 1})
		if r.Examined != 300 || r.FeasibleCount != 300 {
			t.Errorf("start %d: %d examined, %d feasible, want 300", start, r.Examined, r.FeasibleCount)
		}
		results = append(results, r)
	}
	for i, s := range results[0].Feasible {
		if other := results[1].Feasible[i]; other.Node != s.Node || other.Total != s.Total {
			t.Fatalf("rank %d: %s %d and %s %d", i, s.Node.Node.Name, s.Total, other.Node.Node.Name, other.Total)
		}
	}
	if r := defaultProfile(t).Evaluate(placement.Input{Pod: pod, Nodes: cluster, Start: -1}); r.Err == nil {
		t.Error("a negative start was accepted")
	}
}
