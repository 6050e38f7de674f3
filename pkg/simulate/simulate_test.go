package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/simulate"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// object is an object that a test puts into the cluster.
type object interface {
	metav1.Object
	Marshal() ([]byte, error)
}

var kinds = map[string]events.Kind{
	"*v1.Pod": events.KindPod, "*v1.Node": events.KindNode, "*v1.PodDisruptionBudget": events.KindDisruptionBudget,
	"*v1.PriorityClass": events.KindPriorityClass,
}

// cluster returns a store with these objects, complete.
func cluster(t rapid.TB, objects ...object) *state.Store {
	t.Helper()
	store := state.New()
	facts := []events.SequencedFact{{Sequence: 1, Fact: events.Fact{Op: events.OpEpochBegin, Epoch: 1}}}
	add := func(f events.Fact) {
		f.Epoch = 1
		facts = append(facts, events.SequencedFact{Sequence: uint64(len(facts) + 1), Fact: f})
	}
	for i, o := range objects {
		data, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		kind, ok := kinds[fmt.Sprintf("%T", o)]
		if !ok {
			t.Fatalf("object of type %T", o)
		}
		add(events.Fact{
			Kind: kind, Op: events.OpUpsert, UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(),
			ResourceVersion: uint64(i + 1), Object: data,
		})
	}
	for _, kind := range kinds {
		add(events.Fact{Kind: kind, Op: events.OpProgress, Progress: uint64(len(objects) + 1)})
	}
	add(events.Fact{Op: events.OpEpochEnd})
	if _, err := store.Apply(facts); err != nil {
		t.Fatal(err)
	}
	return store
}

func node(name string) *corev1.Node {
	return statetest.Node(name, "cpu", "4", "memory", "8Gi", "pods", "10")
}

func pod(name, cpu, on string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := statetest.Pod("d", name, "cpu", cpu)
	p.Spec.NodeName = on
	if on != "" {
		p.Status.Phase = corev1.PodRunning
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.Labels = map[string]string{"app": name}
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes},
		}
	}
}

func ranked(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func run(t rapid.TB, in simulate.Input) simulate.Report {
	t.Helper()
	if in.Profiles == nil {
		in.Profiles = []placement.ProfileConfig{placement.DefaultProfile(corev1.DefaultSchedulerName)}
	}
	in.Now = time.Unix(1_000_000, 0)
	r, err := simulate.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func evicted(list []simulate.Eviction) (names []string) {
	for _, e := range list {
		names = append(names, e.Pod+" "+e.By)
	}
	slices.Sort(names)
	return names
}

func placed(r simulate.Report) map[string]string {
	at := map[string]string{}
	for _, p := range r.Placed {
		at[p.Pod] = p.Node
	}
	return at
}

// TestDrain checks that a drained node loses the pods that kubectl drain evicts, as far as the budgets allow; their
// owners create replacements elsewhere.
func TestDrain(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "cache", UID: "uid-budget", Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1},
	}
	store := cluster(t, node("a"), node("b"), budget,
		pod("web", "1", "a", ownedBy("ReplicaSet", "web")), pod("naked", "1", "a"),
		pod("agent", "100m", "a", ownedBy("DaemonSet", "agent")),
		pod("cache-1", "100m", "a", ownedBy("ReplicaSet", "cache")),
		pod("cache-2", "100m", "a", ownedBy("ReplicaSet", "cache")),
	)
	r := run(t, simulate.Input{Facts: store, Changes: simulate.Changes{Drain: []string{"a"}}})
	if diff := cmp.Diff([]string{"d/cache-1 drain", "d/naked drain", "d/web drain"}, evicted(r.Evicted)); diff != "" {
		t.Errorf("evicted (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"d/cache-2 drain"}, evicted(r.Kept)); diff != "" {
		t.Errorf("kept (-want +got): %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"d/web": "b", "d/cache-1": "b"}, placed(r)); diff != "" {
		t.Errorf("placed (-want +got): %s", diff)
	}
}

// TestNodesComeAndGo checks that a lost node loses its pods too, and that added nodes like an existing one take
// pods.
func TestNodesComeAndGo(t *testing.T) {
	objects := []object{node("a"), node("b"), pod("web", "3", "a", ownedBy("ReplicaSet", "web")), pod("full", "3", "b"),
		pod("waits", "3", "")}
	r := run(t, simulate.Input{Facts: cluster(t, objects...), Changes: simulate.Changes{Remove: []string{"a"}}})
	if len(r.Pending) != 2 || len(r.Placed) != 0 || r.Nodes != 1 {
		t.Errorf("%+v, want both pods without a place on one node", r)
	}
	r = run(t, simulate.Input{Facts: cluster(t, objects...), Changes: simulate.Changes{
		Remove: []string{"a"}, Add: []simulate.Addition{{Count: 2, Like: "b"}},
	}})
	if len(r.Pending) != 0 || len(r.Placed) != 2 || r.Nodes != 3 {
		t.Errorf("%+v, want both pods placed on the new nodes", r)
	}
}

// TestPodsCome checks that an added pod gets the priority of its class, and that less important pods are evicted
// for it.
func TestPodsCome(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high", UID: "uid-high"}, Value: 1000}
	store := cluster(t, node("a"), class, pod("low", "3", "a", ownedBy("ReplicaSet", "low"), ranked(1)))
	comes := pod("urgent", "2", "")
	comes.Spec.PriorityClassName = "high"
	r := run(t, simulate.Input{Facts: store, Changes: simulate.Changes{Pods: []*corev1.Pod{comes}}})
	if diff := cmp.Diff([]string{"d/low preemption"}, evicted(r.Evicted)); diff != "" {
		t.Errorf("evicted (-want +got): %s", diff)
	}
	if placed(r)["d/urgent"] != "a" || len(r.Pending) != 1 || r.Pending[0].Pod != "d/low" {
		t.Errorf("%+v, want urgent on a and low pending", r)
	}
}

// TestExtendersAreNotAsked checks that the report counts the pods in which extenders have a say: they are decided
// by the rules alone.
func TestExtendersAreNotAsked(t *testing.T) {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Extenders = []configv1.Extender{{
		URLPrefix: "http://extender", PreemptVerb: "p", ManagedResources: []configv1.ExtenderManagedResource{{Name: "cpu"}},
	}}
	objects := []object{node("a"), pod("waits", "3", ""), pod("web", "1", "a")}
	r := run(t, simulate.Input{Facts: cluster(t, objects...), Profiles: []placement.ProfileConfig{cfg}})
	if r.Unasked != 1 || placed(r)["d/waits"] != "a" {
		t.Errorf("%+v, want waits placed on a, the one of which an extender has not been asked", r)
	}
	cfg.Extenders[0].ManagedResources[0].Name = "example.com/gpu"
	r = run(t, simulate.Input{Facts: cluster(t, objects...), Profiles: []placement.ProfileConfig{cfg}})
	if r.Unasked != 0 {
		t.Errorf("%d pods not asked about, want none: they have nothing that the extender manages", r.Unasked)
	}
}

// TestPolicy checks that a policy is carried out: the pods it evicts are placed by the scheduler's rules.
func TestPolicy(t *testing.T) {
	tainted := node("a")
	tainted.Spec.Taints = []corev1.Taint{{Key: "going", Effect: corev1.TaintEffectNoSchedule}}
	store := cluster(t, tainted, node("b"), pod("web", "1", "a", ownedBy("ReplicaSet", "web")))
	p, err := policy.Parse("test", []byte(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
  - name: RemovePodsViolatingNodeTaints
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
`))
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, simulate.Input{Facts: store, Policy: p})
	if len(r.Evicted) != 1 || r.Evicted[0].By != "RemovePodsViolatingNodeTaints" || placed(r)["d/web"] != "b" {
		t.Errorf("%+v, want web to go from a to b", r)
	}
}

func TestRefused(t *testing.T) {
	for want, changes := range map[string]simulate.Changes{
		`node "x": not found, cannot be drained`: {Drain: []string{"x"}},
		`node "x": not found, cannot be removed`: {Remove: []string{"x"}},
		`node "x": not found, cannot be cop`:     {Add: []simulate.Addition{{Count: 1, Like: "x"}}},
		`0 nodes like a: want 1 or more`:         {Add: []simulate.Addition{{Like: "a"}}},
		`node "a": already exists`:               {Nodes: []*corev1.Node{node("a")}},
		`pod d/p: already exists`:                {Pods: []*corev1.Pod{pod("p", "1", "")}},
		`priorityClassName "none"`: {Pods: []*corev1.Pod{pod("q", "1", "", func(p *corev1.Pod) {
			p.Spec.PriorityClassName = "none"
		})}},
	} {
		_, err := simulate.Run(simulate.Input{Facts: cluster(t, node("a"), pod("p", "1", "a")), Changes: changes})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNothingIsOvercommitted checks for any change that no node ends with more than its capacity, that every pod
// that needs a place is placed or reported with a reason, and that equal inputs give equal reports.
func TestNothingIsOvercommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		var objects []object
		cpu := map[string]int64{}
		for n := range nodes {
			objects = append(objects, node(fmt.Sprintf("n%d", n)))
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "bound") {
			on := fmt.Sprintf("n%d", rapid.IntRange(0, nodes-1).Draw(t, "on"))
			if cpu[on] < 4 {
				cpu[on]++
				objects = append(objects, pod(fmt.Sprintf("b%d", i), "1", on, ownedBy("ReplicaSet", "set"),
					ranked(rapid.Int32Range(0, 2).Draw(t, "rank"))))
			}
		}
		waiting := rapid.IntRange(0, 8).Draw(t, "waiting")
		for i := range waiting {
			objects = append(objects, pod(fmt.Sprintf("w%d", i), "1", "", ranked(rapid.Int32Range(0, 4).Draw(t, "rank"))))
		}
		var changes simulate.Changes
		if rapid.Bool().Draw(t, "drain") {
			changes.Drain = []string{"n0"}
		}
		if rapid.Bool().Draw(t, "remove") && nodes > 1 {
			changes.Remove = []string{"n1"}
		}
		if rapid.Bool().Draw(t, "add") {
			changes.Add = []simulate.Addition{{Count: 2, Like: "n0"}}
		}
		r := run(t, simulate.Input{Facts: cluster(t, objects...), Changes: changes})
		checkRoom(t, objects, r)
		reported := len(r.Placed) + len(r.Pending)
		if want := waiting + len(r.Evicted); reported != want {
			t.Fatalf("%d pods were told of, want %d: %+v", reported, want, r)
		}
		again := run(t, simulate.Input{Facts: cluster(t, objects...), Changes: changes})
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("the same input, another report: %s", diff)
		}
	})
}

// checkRoom replays the report and checks the capacity of every node.
func checkRoom(t *rapid.T, objects []object, r simulate.Report) {
	t.Helper()
	on := map[string]int{}
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			on[p.Spec.NodeName]++
		}
	}
	for _, e := range r.Evicted {
		on[e.Node]--
	}
	for _, p := range r.Placed {
		on[p.Node]++
	}
	for name, n := range on {
		if n > 4 {
			t.Fatalf("node %s has %d pods of 1 CPU, and 4 CPUs: %+v", name, n, r)
		}
	}
}
