package placement_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

func defaultProfile(t testing.TB) *placement.Profile {
	t.Helper()
	p, err := placement.NewProfile(placement.DefaultProfile("default-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nodeInfo(name string, allocatable ...string) *state.NodeInfo {
	return state.NewNodeInfo(state.NewNode(statetest.Node(name, allocatable...)))
}

// nodes makes count equal nodes with much room.
func nodes(count int) []*state.NodeInfo {
	list := make([]*state.NodeInfo, count)
	for i := range list {
		list[i] = nodeInfo(fmt.Sprintf("node-%04d", i), "cpu", "4", "memory", "32Gi", "pods", "110")
	}
	return list
}

// changed applies edits to a pod and derives its values.
func changed(pod *corev1.Pod, edits ...func(*corev1.Pod)) *state.Pod {
	for _, edit := range edits {
		edit(pod)
	}
	return state.NewPod(pod)
}

// TestDiagnosis checks the sentence that users see, and the rules that the pod waits for.
func TestDiagnosis(t *testing.T) {
	cordoned := nodeInfo("cordoned", "cpu", "4", "memory", "4Gi", "pods", "10")
	cordoned.Node.Object.Spec.Unschedulable = true
	tainted := nodeInfo("tainted", "cpu", "4", "memory", "4Gi", "pods", "10")
	tainted.Node.Object.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	full := nodeInfo("full", "cpu", "1", "memory", "1Gi", "pods", "1")
	full.AddPod(changed(statetest.Pod("default", "there", "cpu", "600m", "memory", "900Mi"), func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	}))
	cluster := []*state.NodeInfo{cordoned, tainted, full}
	tests := map[string]struct {
		nodes   []*state.NodeInfo
		pod     *state.Pod
		message string
		plugins []string
	}{
		"no nodes": {nil, changed(statetest.Pod("default", "p")), "no nodes available to schedule pods", nil},
		"every node for its own reason, one for several": {
			cluster, changed(statetest.Pod("default", "p", "cpu", "2", "memory", "200Mi")),
			"0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, " +
				"1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.",
			[]string{"NodeResourcesFit", "NodeUnschedulable", "TaintToleration"},
		},
		"ports come before resources": {
			cluster[2:], changed(statetest.Pod("default", "p", "cpu", "2"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, HostIP: "10.0.0.1"}}
			}),
			"0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
			[]string{"NodePorts"},
		},
		"narrowed to one node and to one that is not there": {
			cluster, changed(statetest.Pod("default", "p"), named("full", "absent")),
			"0/3 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
			[]string{"NodeAffinity", "NodeResourcesFit"},
		},
		"terms that contradict each other": {
			cluster, changed(statetest.Pod("default", "p"), named("full"), func(p *corev1.Pod) {
				term := &p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
				term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
					Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"tainted"},
				})
			}),
			"0/3 nodes are available: pod affinity terms conflict.", []string{"NodeAffinity"},
		},
		"a gated pod": {
			cluster, changed(statetest.Pod("default", "p"), func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}}
			}),
			"0/3 nodes are available: waiting for scheduling gates: [a b].", []string{"SchedulingGates"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := defaultProfile(t).Evaluate(placement.Input{Pod: test.pod, Nodes: test.nodes})
			if r.Err != nil || len(r.Feasible) != 0 || r.NodesTotal != len(test.nodes) {
				t.Fatalf("result %+v, want no feasible node of %d", r, len(test.nodes))
			}
			if got := r.Diagnosis.Message(); got != test.message {
				t.Errorf("message\n%s\nwant\n%s", got, test.message)
			}
			if got := r.Diagnosis.Plugins(); !slices.Equal(got, test.plugins) {
				t.Errorf("plugins %v, want %v", got, test.plugins)
			}
		})
	}
}

// TestReasonsCount checks that a rejection without evaluating nodes counts all of them.
func TestReasonsCount(t *testing.T) {
	gated := changed(statetest.Pod("default", "p"), func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}}
	})
	r := defaultProfile(t).Evaluate(placement.Input{Pod: gated, Nodes: nodes(3)})
	want := map[string]int32{"waiting for scheduling gates: [a]": 3}
	if diff := gocmp.Diff(want, r.Diagnosis.Reasons()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRanking checks that the short ranking is the start of the full one, that the full one is by total with ties
// in an order that depends only on the seed, and that the order of the input matters to neither.
func TestRanking(t *testing.T) {
	p := defaultProfile(t)
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 60).Draw(t, "nodes")
		var list []*state.NodeInfo
		for i := range count {
			list = append(list, nodeInfo(fmt.Sprintf("node-%d", i), "pods", "110", "memory", "8Gi",
				"cpu", rapid.SampledFrom([]string{"2", "4", "8"}).Draw(t, "cpu")))
		}
		in := placement.Input{
			Pod: changed(statetest.Pod("default", "p", "cpu", "1")), Nodes: list,
			Seed: rapid.Uint64().Draw(t, "seed"), Limit: -1,
		}
		full := ranked(p.Evaluate(in))
		if len(full) != count {
			t.Fatalf("%d ranked, want %d", len(full), count)
		}
		in.Limit = 0
		if short := ranked(p.Evaluate(in)); !slices.Equal(short, full[:min(count, placement.TopK)]) {
			t.Fatalf("short ranking %v, want the start of %v", short, full)
		}
		in.Limit = 1
		in.Nodes = rapid.Permutation(list).Draw(t, "order")
		if best := ranked(p.Evaluate(in)); best[0] != full[0] {
			t.Fatalf("in another order the best is %s, want %s", best[0], full[0])
		}
	})
}

// ranked lists the ranked nodes and fails unless totals descend.
func ranked(r placement.Result) []string {
	var list []string
	for _, s := range r.Feasible {
		list = append(list, s.Node.Node.Name)
	}
	if !slices.IsSortedFunc(r.Feasible, func(a, b placement.Scored) int { return cmp.Compare(b.Total, a.Total) }) {
		return nil
	}
	return list
}

// TestTiesSpread checks that, over seeds, equal nodes win about equally often.
func TestTiesSpread(t *testing.T) {
	const tries, count = 4000, 10
	p, list := defaultProfile(t), nodes(count)
	wins := map[string]int{}
	for seed := range uint64(tries) {
		r := p.Evaluate(placement.Input{Pod: changed(statetest.Pod("default", "p", "cpu", "1")), Nodes: list, Seed: seed})
		wins[r.Feasible[0].Node.Node.Name]++
	}
	for _, n := range list {
		if won := wins[n.Node.Name]; won < tries/count*3/4 || won > tries/count*5/4 {
			t.Errorf("%s won %d of %d, want about %d", n.Node.Name, won, tries, tries/count)
		}
	}
}

func TestExcluded(t *testing.T) {
	list := nodes(3)
	in := placement.Input{
		Pod: changed(statetest.Pod("default", "p")), Nodes: list,
		Excluded: map[string]string{"uid-node-0000": "node(s) are waited for", "uid-node-0002": "node(s) are waited for"},
	}
	p := defaultProfile(t)
	if r := p.Evaluate(in); !slices.Equal(ranked(r), []string{"node-0001"}) || r.NodesTotal != 3 {
		t.Errorf("feasible %v of %d, want node-0001 of 3", ranked(r), r.NodesTotal)
	}
	in.Excluded["uid-node-0001"] = "node(s) are full of promises"
	r := p.Evaluate(in)
	want := "0/3 nodes are available: 1 node(s) are full of promises, 2 node(s) are waited for."
	if got := r.Diagnosis.Message(); got != want || len(r.Diagnosis.Plugins()) != 0 {
		t.Errorf("message %s with plugins %v, want %s with none", got, r.Diagnosis.Plugins(), want)
	}
}

// TestNominated checks that a pod is placed on the node that it has been nominated to if it fits, and otherwise on
// the best one.
func TestNominated(t *testing.T) {
	list := nodes(3)
	pod := changed(statetest.Pod("default", "p", "cpu", "1"), func(p *corev1.Pod) {
		p.Status.NominatedNodeName = "node-0001"
	})
	p := defaultProfile(t)
	for seed := range uint64(10) {
		for _, details := range []bool{false, true} {
			r := p.Evaluate(placement.Input{Pod: pod, Nodes: list, Seed: seed, Details: details})
			if !slices.Equal(ranked(r), []string{"node-0001"}) {
				t.Fatalf("feasible %v, want the nominated node alone", ranked(r))
			}
		}
	}
	list[1].Node.Object.Spec.Unschedulable = true
	if r := p.Evaluate(placement.Input{Pod: pod, Nodes: list}); r.FeasibleCount != 2 {
		t.Errorf("%d feasible nodes, want the other 2", r.FeasibleCount)
	}
}

// TestDetails checks that the numbers in one node's report add up.
func TestDetails(t *testing.T) {
	list := nodes(3)
	list[2].Node.Object.Spec.Unschedulable = true
	r := defaultProfile(t).Evaluate(placement.Input{
		Pod: changed(statetest.Pod("default", "p", "cpu", "2", "memory", "16Gi")), Nodes: list, Details: true,
	})
	want := []placement.PluginScore{
		{Plugin: "TaintToleration", Raw: 0, Normalized: 100, Weight: 3},
		{Plugin: "NodeResourcesFit", Raw: 50, Normalized: 50, Weight: 1},
		{Plugin: "NodeResourcesBalancedAllocation", Raw: 75, Normalized: 75, Weight: 1},
		{Plugin: "ImageLocality", Raw: 0, Normalized: 0, Weight: 1},
	}
	for i := range 2 {
		n := r.Nodes[i]
		if diff := gocmp.Diff(want, n.Scores); diff != "" || n.Total != 425 || n.Code != rule.Success {
			t.Errorf("node %d: total %d, code %s, scores (-want +got):\n%s", i, n.Total, n.Code, diff)
		}
		if diff := gocmp.Diff(want, r.Feasible[i].ByPlugin); diff != "" || r.Feasible[i].Total != 425 {
			t.Errorf("rank %d: total %d, scores (-want +got):\n%s", i, r.Feasible[i].Total, diff)
		}
	}
	n := r.Nodes[2]
	if n.Plugin != "NodeUnschedulable" || n.Code != rule.UnschedulableAndUnresolvable ||
		!slices.Equal(n.Reasons, []string{"node(s) were unschedulable"}) {
		t.Errorf("the cordoned node reports %+v", n)
	}
}

// TestAttemptErrors checks that failures other than rejections are errors.
func TestAttemptErrors(t *testing.T) {
	p, list := defaultProfile(t), nodes(2)
	if r := p.Evaluate(placement.Input{Pod: &state.Pod{}, Nodes: list}); r.Err == nil {
		t.Error("a pod without an object is evaluated")
	}
	pod := changed(statetest.Pod("default", "p"), func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "a", Operator: "Nonsense"},
				}},
			}},
		}}
	})
	r := p.Evaluate(placement.Input{Pod: pod, Nodes: list})
	if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "placement: plugin NodeAffinity: ") || r.FeasibleCount != 0 {
		t.Errorf("result %+v, want an error of NodeAffinity", r)
	}
	if r := p.Evaluate(placement.Input{Pod: pod, Nodes: list[:1]}); r.Err != nil || r.FeasibleCount != 1 {
		t.Errorf("with a single node nothing is compared, but: %v", r.Err)
	}
}

func TestNewProfile(t *testing.T) {
	fit := func(strategy configv1.ScoringStrategy) placement.PluginConfig {
		return placement.PluginConfig{
			Name: "NodeResourcesFit", Args: &configv1.NodeResourcesFitArgs{ScoringStrategy: &strategy},
		}
	}
	tests := map[string]struct {
		plugins []placement.PluginConfig
		want    string
	}{
		"unknown": {
			[]placement.PluginConfig{{Name: "Foo"}},
			"plugins[0] Foo: is unknown, want one of DefaultBinder, DefaultPreemption, DynamicResources, ",
		},
		"twice": {
			[]placement.PluginConfig{{Name: "NodeName"}, {Name: "NodeName"}},
			"plugins[1] NodeName: is enabled twice, want once",
		},
		"weight": {[]placement.PluginConfig{{Name: "NodeName", Weight: -1}}, "weight is -1, want 0 or more"},
		"wrong args": {
			[]placement.PluginConfig{{Name: "NodeAffinity", Args: &configv1.NodeResourcesFitArgs{}}},
			"args of type *v1.NodeResourcesFitArgs, want *v1.NodeAffinityArgs",
		},
		"no args": {
			[]placement.PluginConfig{{Name: "NodeName", Args: &configv1.NodeAffinityArgs{}}},
			"args of type *v1.NodeAffinityArgs, want none",
		},
		"strategy": {
			[]placement.PluginConfig{fit(configv1.ScoringStrategy{Type: "Best"})},
			`scoringStrategy.type is "Best", want LeastAllocated, MostAllocated or RequestedToCapacityRatio`,
		},
		"empty shape": {
			[]placement.PluginConfig{fit(configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio})},
			"shape is empty, want at least one point",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { refuses(t, test.want, test.plugins...) })
	}
	if _, err := placement.NewProfile(placement.ProfileConfig{}); err == nil {
		t.Error("a profile without a name is accepted")
	}
	var all placement.ProfileConfig
	all.SchedulerName = "s"
	for _, name := range placement.KnownPlugins() {
		all.Plugins = append(all.Plugins, placement.PluginConfig{Name: name})
	}
	if _, err := placement.NewProfile(all); err != nil {
		t.Errorf("a known plugin is refused: %v", err)
	}
}

// refuses checks that a profile of these plugins is refused, and why.
func refuses(t *testing.T, want string, plugins ...placement.PluginConfig) {
	t.Helper()
	_, err := placement.NewProfile(placement.ProfileConfig{SchedulerName: "s", Plugins: plugins})
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "placement: profile s: ") {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestTopologyArgs checks that arguments that the evaluation could not work with are refused.
func TestTopologyArgs(t *testing.T) {
	spreadBy := func(kind configv1.PodTopologySpreadConstraintsDefaulting, c ...corev1.TopologySpreadConstraint,
	) placement.PluginConfig {
		return placement.PluginConfig{Name: names.PodTopologySpread, Args: &configv1.PodTopologySpreadArgs{
			DefaultingType: kind, DefaultConstraints: c,
		}}
	}
	refuses(t, "hardPodAffinityWeight is 101, want 0 to 100", placement.PluginConfig{
		Name: names.InterPodAffinity, Args: &configv1.InterPodAffinityArgs{HardPodAffinityWeight: ptr.To[int32](101)},
	})
	refuses(t, "defaultConstraints has 1 entries, want none unless defaultingType is List",
		spreadBy("", corev1.TopologySpreadConstraint{}))
	refuses(t, `defaultingType is "Some", want System or List`, spreadBy("Some"))
	refuses(t, "defaultConstraints[0].maxSkew is 0, want 1 or more\n"+
		"defaultConstraints[0].whenUnsatisfiable is Never, want DoNotSchedule or ScheduleAnyway",
		spreadBy(configv1.ListDefaulting, corev1.TopologySpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: "Never"}))
	selecting := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
	}
	refuses(t, "defaultConstraints[0].labelSelector is set", spreadBy(configv1.ListDefaulting, selecting))
}

// TestLess checks that the order is total.
func TestLess(t *testing.T) {
	start := time.Unix(1000, 0)
	draw := rapid.Custom(func(t *rapid.T) placement.Queued {
		return placement.Queued{
			Priority: rapid.Int32Range(-1, 1).Draw(t, "priority"),
			Since:    start.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "since"))),
			UID:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw.Draw(t, "a"), draw.Draw(t, "b"), draw.Draw(t, "c")
		if a != b && placement.Less(a, b) == placement.Less(b, a) {
			t.Fatalf("%v and %v are not ordered", a, b)
		}
		if placement.Less(a, b) && placement.Less(b, c) && !placement.Less(a, c) {
			t.Fatalf("%v, %v, %v: not transitive", a, b, c)
		}
		if a.Priority > b.Priority && !placement.Less(a, b) {
			t.Fatal("the higher priority waits")
		}
	})
}

// TestPointsOfNodeAffinity checks that narrowing the search and filtering nodes are independent.
func TestPointsOfNodeAffinity(t *testing.T) {
	const narrowing, filtering = placement.Narrowing, placement.Filtering
	both := func(p *corev1.Pod) { // two names at once: no node is left
		term := &p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0000"},
		})
	}
	const mismatch = "node(s) didn't match Pod's node affinity/selector"
	const narrowed = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
	tests := []struct {
		points            placement.Points
		one, contradicted string // the reason at the other node for a pod for node-0001, and that for both
	}{
		{narrowing, narrowed, "pod affinity terms conflict"},
		{filtering, mismatch, mismatch},
		{narrowing | filtering, narrowed, "pod affinity terms conflict"},
		{placement.Scoring, "", ""},
		{0, narrowed, "pod affinity terms conflict"},
	}
	for _, test := range tests {
		p := newProfile(t, placement.ProfileConfig{SchedulerName: "s", Plugins: []placement.PluginConfig{
			{Name: names.NodeAffinity, Points: test.points},
		}})
		in := placement.Input{
			Pod: changed(statetest.Pod("default", "p"), named("node-0001")), Nodes: nodes(2), Details: true,
		}
		one := p.Evaluate(in)
		in.Pod = changed(statetest.Pod("default", "p"), named("node-0001"), both)
		contradicted := p.Evaluate(in)
		for result, want := range map[*placement.Result]string{&one: test.one, &contradicted: test.contradicted} {
			if got := strings.Join(result.Nodes[0].Reasons, ", "); got != want {
				t.Errorf("points %03b: node-0000 fails for %q, want %q", test.points, got, want)
			}
		}
	}
}

// TestPoints checks that a rule enabled at one point takes no part at the other.
func TestPoints(t *testing.T) {
	full := nodeInfo("n", "cpu", "1", "pods", "1")
	in := placement.Input{
		Pod: changed(statetest.Pod("default", "p", "cpu", "2")), Nodes: []*state.NodeInfo{full}, Details: true,
	}
	for points, want := range map[placement.Points]int{placement.Filtering: 0, placement.Scoring: 1} {
		p, err := placement.NewProfile(placement.ProfileConfig{SchedulerName: "s", Plugins: []placement.PluginConfig{
			{Name: names.NodeResourcesFit, Points: points},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Evaluate(in); r.FeasibleCount != want {
			t.Errorf("points %d: %d feasible, want %d", points, r.FeasibleCount, want)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	const count = 1000
	selector := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0001"} }
	preferred := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0001"}},
				}},
			}},
		}}
	}
	for name, pod := range map[string]*state.Pod{
		"plain":        changed(statetest.Pod("default", "p", "cpu", "100m", "memory", "500Mi")),
		"does-not-fit": changed(statetest.Pod("default", "p", "cpu", "100", "memory", "500Mi")),
		"selector":     changed(statetest.Pod("default", "p", "cpu", "100m"), selector),
		"preferred":    changed(statetest.Pod("default", "p", "cpu", "100m"), preferred),
	} {
		b.Run(name, func(b *testing.B) {
			p, list := defaultProfile(b), nodes(count)
			for i, n := range list {
				for j := range i % 20 {
					n.AddPod(changed(statetest.Pod("default", fmt.Sprintf("p-%d-%d", i, j), "cpu", "100m", "memory", "500Mi")))
				}
			}
			b.ReportAllocs()
			var seed uint64
			for b.Loop() {
				seed++
				p.Evaluate(placement.Input{Pod: pod, Nodes: list, Seed: seed})
			}
		})
	}
}

// The hash of a profile depends on how its extenders are called, but not on the credentials for them: a bundle does
// not contain credentials, and must be replayable nevertheless.
func TestHashKnowsNoCredentials(t *testing.T) {
	hash := func(e configv1.Extender) uint64 {
		p, err := placement.NewProfile(placement.ProfileConfig{SchedulerName: "s", Extenders: []configv1.Extender{e}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Hash()
	}
	plain := hash(configv1.Extender{URLPrefix: "https://host/x", FilterVerb: "filter"})
	for name, c := range map[string]struct {
		extender configv1.Extender
		same     bool
	}{
		"a key": {configv1.Extender{
			URLPrefix: "https://host/x", FilterVerb: "filter", TLSConfig: &configv1.ExtenderTLSConfig{KeyData: []byte("k")},
		}, true},
		"a password":      {configv1.Extender{URLPrefix: "https://user:password@host/x", FilterVerb: "filter"}, true},
		"another address": {configv1.Extender{URLPrefix: "https://host/y", FilterVerb: "filter"}, false},
		"another verb":    {configv1.Extender{URLPrefix: "https://host/x", FilterVerb: "sieve"}, false},
	} {
		if got := hash(c.extender); (got == plain) != c.same {
			t.Errorf("%s: hash %x, of the plain one %x: want the same: %t", name, got, plain, c.same)
		}
	}
}
