package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// Short names for the tests.
var (
	selecting = placementtest.Selecting
	term      = placementtest.Term
	away      = placementtest.Away
	near      = placementtest.Near
	spread    = placementtest.Spread
	inOrder   = placementtest.InOrder
	named     = placementtest.Named
)

// zones makes nodes a1, a2 in zone a, b1 in zone b and x1 in none.
func zones() map[string]*state.NodeInfo {
	list := map[string]*state.NodeInfo{}
	for name, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "x1": ""} {
		obj := statetest.Node(name, "pods", "110")
		if zone != "" {
			obj.Labels[corev1.LabelTopologyZone] = zone
		}
		list[name] = state.NewNodeInfo(state.NewNode(obj))
	}
	return list
}

// app makes a pod app=name in namespace default.
func app(name, uid string, edits ...func(*corev1.Pod)) *state.Pod {
	return changed(statetest.Pod("default", uid), append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": name}
	}}, edits...)...)
}

func profileOf(t testing.TB) *placement.Profile {
	t.Helper()
	cfg := placement.DefaultProfile("s")
	p, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// feasible names the nodes that can take the pod, sorted.
func feasible(t testing.TB, p *placement.Profile, in placement.Input) string {
	t.Helper()
	in.Limit = -1
	r := p.Evaluate(in)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var names []string
	for _, s := range r.Feasible {
		names = append(names, s.Node.Node.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const (
	zone     = corev1.LabelTopologyZone
	hostname = corev1.LabelHostname
	hard     = corev1.DoNotSchedule
	soft     = corev1.ScheduleAnyway
)

// TestBeyondOneNode checks which nodes can take a pod when a relevant pod is on a1.
func TestBeyondOneNode(t *testing.T) {
	everywhere := "a1 a2 b1 x1"
	reserved := &state.Pod{UID: "reserved", Namespace: "default"}
	selected := term(hostname, "web")
	selected.Namespaces, selected.NamespaceSelector = []string{"team"}, &metav1.LabelSelector{
		MatchLabels: map[string]string{"env": "prod"}}
	tests := map[string]struct {
		there *state.Pod // on a1
		pod   *state.Pod
		want  string
	}{
		"hard spread":            {app("web", "there"), app("web", "p", spread(zone, hard)), "b1"},
		"hard spread over nodes": {app("web", "there"), app("web", "p", spread(hostname, hard)), "a2 b1 x1"},
		"soft spread":            {app("web", "there"), app("web", "p", spread(zone, soft)), everywhere},
		"affinity":               {app("db", "there"), app("web", "p", near(term(zone, "db"))), "a1 a2"},
		"affinity to a node":     {app("db", "there"), app("web", "p", near(term(hostname, "db"))), "a1"},
		"anti-affinity":          {app("db", "there"), app("web", "p", away(term(zone, "db"))), "b1 x1"},
		"anti-affinity by node":  {app("db", "there"), app("web", "p", away(term(hostname, "db"))), "a2 b1 x1"},
		"repelled from a zone":   {app("db", "there", away(term(zone, "web"))), app("web", "p"), "b1 x1"},
		"repelled from a node":   {app("db", "there", away(term(hostname, "web"))), app("web", "p"), "a2 b1 x1"},
		"others are repelled":    {app("db", "there", away(term(zone, "x"))), app("web", "p"), everywhere},
		"a namespace not known":  {app("db", "there", away(selected)), app("web", "p"), everywhere},
		"a reserved pod":         {reserved, app("web", "p"), everywhere},
		"preferred anti-affinity": {
			app("db", "there"), app("web", "p", prefersAway(term(zone, "db"))), everywhere},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := zones()
			nodes["a1"].AddPod(test.there)
			in := placement.Input{Pod: test.pod, Nodes: inOrder(nodes)}
			if got := feasible(t, profileOf(t), in); got != test.want {
				t.Errorf("feasible %q, want %q", got, test.want)
			}
		})
	}
}

func prefersAway(t corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 100, PodAffinityTerm: t}}}}
	}
}

// TestSharedHostname checks that where two nodes have the same hostname, a domain is more than a node.
func TestSharedHostname(t *testing.T) {
	nodes := zones()
	nodes["b1"].Node.Object.Labels[hostname] = "a1"
	nodes["a1"].AddPod(app("db", "there"))
	in := placement.Input{Pod: app("web", "p", away(term(hostname, "db"))), Nodes: inOrder(nodes)}
	if got := feasible(t, profileOf(t), in); got != "a2 x1" {
		t.Errorf("feasible %q, want those of other hostnames", got)
	}
}

// TestCandidates checks that nodes that cannot be chosen count nevertheless.
func TestCandidates(t *testing.T) {
	nodes := zones()
	nodes["a1"].AddPod(app("db", "there", away(term(zone, "web"))))
	in := placement.Input{
		Pod: app("web", "p"), Nodes: inOrder(nodes), Candidates: []*state.NodeInfo{nodes["a2"], nodes["b1"]},
	}
	if got := feasible(t, profileOf(t), in); got != "b1" {
		t.Errorf("feasible %q, want b1: what is on a1 keeps the pod out of its zone", got)
	}
	in.Candidates = in.Candidates[:1]
	r := profileOf(t).Evaluate(in)
	want := "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
	if got := r.Diagnosis.Message(); got != want || r.NodesTotal != 1 {
		t.Errorf("%d nodes: %s, want %s", r.NodesTotal, got, want)
	}
}

// TestRepelledWakes checks that a pod is woken when the pod that repelled it is gone.
func TestRepelledWakes(t *testing.T) {
	there := app("db", "there", away(term(zone, "web")), func(p *corev1.Pod) { p.Spec.NodeName = "a1" })
	nodes := map[string]*state.NodeInfo{"a1": zones()["a1"]}
	nodes["a1"].AddPod(there)
	p := profileOf(t)
	in := placement.Input{Pod: app("web", "p"), Nodes: inOrder(nodes)}
	r := p.Evaluate(in)
	if r.FeasibleCount != 0 {
		t.Fatal("placed next to what repels it")
	}
	gone := rule.PodChange(state.PodChange{Before: there})
	if !p.Wakes(in.Pod, r.Diagnosis.Plugins(), gone) {
		t.Error("the end of the cause does not wake the pod")
	}
}

// TestHardSpread checks which domains count, and which pods count in them.
func TestHardSpread(t *testing.T) {
	dying := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "team" }
	second := func(p *corev1.Pod) { p.Labels["version"] = "2" }
	edit := func(f func(*corev1.TopologySpreadConstraint)) *state.Pod {
		return app("web", "p", second, spread(zone, hard, f))
	}
	tests := map[string]struct {
		there map[string]*state.Pod // by node
		pod   *state.Pod
		want  string
	}{
		"nodes without the key are out": {nil, app("web", "p", spread(zone, hard)), "a1 a2 b1"},
		"a zone ahead is full": {
			map[string]*state.Pod{"a1": app("web", "1")}, app("web", "p", spread(zone, hard)), "b1"},
		"a pod that does not count itself may go one further": {
			map[string]*state.Pod{"a1": app("web", "1")}, app("db", "p", spread(zone, hard)), "a1 a2 b1"},
		"dying pods do not count": {
			map[string]*state.Pod{"a1": app("web", "1", dying)}, app("web", "p", spread(zone, hard)), "a1 a2 b1"},
		"nor do those of other namespaces": {
			map[string]*state.Pod{"a1": app("web", "1", elsewhere)}, app("web", "p", spread(zone, hard)), "a1 a2 b1"},
		"nor those on nodes without the key": {
			map[string]*state.Pod{"x1": app("web", "1")}, app("web", "p", spread(zone, hard)), "a1 a2 b1"},
		"too few domains: the fewest is none": {
			map[string]*state.Pod{"a1": app("web", "1"), "b1": app("web", "2")},
			edit(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = ptr.To[int32](3) }), ""},
		"an empty selector counts no pods but the pod itself": {
			map[string]*state.Pod{"a1": app("web", "1"), "a2": app("web", "2")},
			edit(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }), "a1 a2 b1"},
		"no selector counts nothing": {
			map[string]*state.Pod{"a1": app("web", "1"), "a2": app("web", "2")},
			edit(func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = nil }), "a1 a2 b1"},
		"keys to match narrow the selector": {
			map[string]*state.Pod{"a1": app("web", "1")},
			edit(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version", "absent"} }), "a1 a2 b1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := zones()
			for node, pod := range test.there {
				nodes[node].AddPod(pod)
			}
			in := placement.Input{Pod: test.pod, Nodes: inOrder(nodes)}
			if got := feasible(t, profileOf(t), in); got != test.want {
				t.Errorf("feasible %q, want %q", got, test.want)
			}
		})
	}
}

// TestSpreadPolicies checks that by default nodes that the pod cannot select do not form a domain, and tainted ones
// do.
func TestSpreadPolicies(t *testing.T) {
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	for name, test := range map[string]struct {
		affinity, taints *corev1.NodeInclusionPolicy
		want             string
	}{
		"default":        {nil, nil, ""},         // zone b counts, has no pod, and is tainted
		"honor taints":   {nil, &honor, "a1"},    // only zone a
		"ignore both":    {&ignore, &ignore, ""}, // as by default: b is the emptiest
		"only selection": {&honor, &honor, "a1"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := zones()
			nodes["a1"].AddPod(app("web", "1"))
			nodes["b1"].Node.Object.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			nodes["a2"].Node.Object.Spec.Unschedulable = true
			in := placement.Input{Nodes: inOrder(nodes), Pod: app("web", "p", spread(zone, hard,
				func(c *corev1.TopologySpreadConstraint) {
					c.NodeAffinityPolicy, c.NodeTaintsPolicy = test.affinity, test.taints
				}))}
			if got := feasible(t, profileOf(t), in); got != test.want {
				t.Errorf("feasible %q, want %q", got, test.want)
			}
		})
	}
}

// world returns objects as facts leave them.
func world(t testing.TB, list map[events.Kind][]state.APIObject) *state.Snapshot {
	t.Helper()
	var h statetest.History
	for kind, objects := range list {
		for _, o := range objects {
			o.SetUID(types.UID(fmt.Sprintf("%s-%s-%s", kind, o.GetNamespace(), o.GetName())))
			h.Upsert(kind, o)
		}
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatal(err)
	}
	return store.Snapshot()
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func selects(name string) corev1.ServiceSpec {
	return corev1.ServiceSpec{Selector: map[string]string{"app": name}}
}

// ownedBy makes a pod the child of a controller.
func ownedBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
}

// TestDefaultSpread checks that pods without constraints are spread over nodes and zones if a service or a
// controller selects them. Nodes without a zone take part only by their hostname, so that they do not get what the
// zone constraint adds to all others.
func TestDefaultSpread(t *testing.T) {
	objects := world(t, map[events.Kind][]state.APIObject{
		events.KindService: {
			&corev1.Service{ObjectMeta: meta("default", "web"), Spec: selects("web")},
			&corev1.Service{ObjectMeta: meta("team", "all"), Spec: selects("x")},
			&corev1.Service{ObjectMeta: meta("default", "manual")},
		},
		events.KindReplicaSet: {
			&appsv1.ReplicaSet{ObjectMeta: meta("default", "rs"), Spec: appsv1.ReplicaSetSpec{Selector: selecting("x")}},
		},
		events.KindStatefulSet: {
			&appsv1.StatefulSet{ObjectMeta: meta("default", "ss"), Spec: appsv1.StatefulSetSpec{Selector: selecting("x")}},
		},
		events.KindReplicationController: {
			&corev1.ReplicationController{ObjectMeta: meta("default", "rc"),
				Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "x"}}},
		},
	})
	for name, test := range map[string]struct {
		pod  *state.Pod
		want string // best first, equals together
	}{
		"a service":                 {app("web", "p"), "x1 b1 a2 a1"},
		"a replica set":             {app("x", "p", ownedBy("apps/v1", "ReplicaSet", "rs")), "x1 b1 a2 a1"},
		"a stateful set":            {app("x", "p", ownedBy("apps/v1", "StatefulSet", "ss")), "x1 b1 a2 a1"},
		"a replication controller":  {app("x", "p", ownedBy("v1", "ReplicationController", "rc")), "x1 b1 a2 a1"},
		"an old version of it":      {app("x", "p", ownedBy("apps/v1beta1", "ReplicaSet", "rs")), "a1=a2=b1=x1"},
		"a controller that is gone": {app("x", "p", ownedBy("apps/v1", "ReplicaSet", "gone")), "a1=a2=b1=x1"},
		"nothing selects it":        {app("x", "p"), "a1=a2=b1=x1"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := zones()
			for i, other := range []string{"web", "x"} {
				nodes["a1"].AddPod(app(other, fmt.Sprint(i)))
			}
			in := placement.Input{Pod: test.pod, Nodes: inOrder(nodes), Objects: objects, Details: true, Limit: -1}
			r := profileOf(t).Evaluate(in)
			if got := ranking(r, names.PodTopologySpread); got != test.want {
				t.Errorf("order %q, want %q", got, test.want)
			}
		})
	}
}

// ranking lists nodes by one plugin's score, best first, equals by name with = in between.
func ranking(r placement.Result, plugin string) string {
	points := map[string]int64{}
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Node.Node.Name)
		for _, s := range n.Scores {
			if s.Plugin == plugin {
				points[n.Node.Node.Name] = s.Normalized
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(points[b] - points[a]) })
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(map[bool]string{true: "=", false: " "}[points[name] == points[names[i-1]]])
		}
		b.WriteString(name)
	}
	return b.String()
}

// TestSpreadScores checks the numbers of one example that was computed by hand: two zones, so a pod weighs ln 4 =
// 1.386; zone a has 3 pods and scores round(4.16) = 4, zone b none; the node without a zone scores nothing.
func TestSpreadScores(t *testing.T) {
	nodes := zones()
	for i := range 3 {
		nodes["a1"].AddPod(app("web", fmt.Sprint(i)))
	}
	in := placement.Input{
		Pod: app("web", "p", spread(zone, soft)), Nodes: inOrder(nodes), Details: true, Limit: -1,
	}
	want := map[string][2]int64{"a1": {4, 0}, "a2": {4, 0}, "b1": {0, 100}, "x1": {0, 0}}
	for _, n := range profileOf(t).Evaluate(in).Nodes {
		for _, s := range n.Scores {
			if got := [2]int64{s.Raw, s.Normalized}; s.Plugin == names.PodTopologySpread && got != want[n.Node.Node.Name] {
				t.Errorf("node %s: raw and normalised %v, want %v", n.Node.Node.Name, got, want[n.Node.Node.Name])
			}
		}
	}
}

// TestRequiredAffinity checks that one pod has to match all terms, in all their domains, and that the first pod of
// a series may be placed wherever the keys are.
func TestRequiredAffinity(t *testing.T) {
	both := func(p *corev1.Pod) { p.Labels["tier"] = "1" }
	tier := corev1.PodAffinityTerm{TopologyKey: hostname, LabelSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"tier": "1"}}}
	tests := map[string]struct {
		there map[string]*state.Pod
		pod   *state.Pod
		want  string
	}{
		"the zone of a match": {
			map[string]*state.Pod{"a1": app("db", "1")}, app("web", "p", near(term(zone, "db"))), "a1 a2"},
		"nobody there":          {nil, app("web", "p", near(term(zone, "db"))), ""},
		"the first of a series": {nil, app("web", "p", near(term(zone, "web"))), "a1 a2 b1"},
		"not the first any more": {
			map[string]*state.Pod{"b1": app("web", "1")}, app("web", "p", near(term(zone, "web"))), "b1"},
		"the first, as the other is in no domain": {
			map[string]*state.Pod{"x1": app("web", "1")}, app("web", "p", near(term(zone, "web"))), "a1 a2 b1"},
		"two terms, one pod each": {
			map[string]*state.Pod{"a1": app("db", "1"), "a2": app("x", "2", both)},
			app("web", "p", near(term(zone, "db"), tier)), ""},
		"two terms, one pod": {
			map[string]*state.Pod{"a1": app("db", "1", both)}, app("web", "p", near(term(zone, "db"), tier)), "a1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := zones()
			for node, pod := range test.there {
				nodes[node].AddPod(pod)
			}
			in := placement.Input{Pod: test.pod, Nodes: inOrder(nodes)}
			if got := feasible(t, profileOf(t), in); got != test.want {
				t.Errorf("feasible %q, want %q", got, test.want)
			}
		})
	}
}

// TestNamespaceLabels checks that the labels of namespaces decide which pods a term matches, and that a change of
// them takes effect and wakes pods.
func TestNamespaceLabels(t *testing.T) {
	namespaces := func(env string) *state.Snapshot {
		n := &corev1.Namespace{ObjectMeta: meta("", "team")}
		n.Labels = map[string]string{"env": env}
		return world(t, map[events.Kind][]state.APIObject{events.KindNamespace: {n}})
	}
	inProd := term(zone, "db")
	inProd.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	nodes := zones()
	nodes["a1"].AddPod(app("db", "there", func(p *corev1.Pod) { p.Namespace = "team" }))
	p := profileOf(t)
	in := placement.Input{Pod: app("web", "p", away(inProd)), Nodes: inOrder(nodes)}
	for env, want := range map[string]string{"prod": "b1 x1", "dev": "a1 a2 b1 x1"} {
		in.Objects = namespaces(env)
		if got := feasible(t, p, in); got != want {
			t.Errorf("namespace %s: feasible %q, want %q", env, got, want)
		}
	}
	before, _ := namespaces("prod").ObjectByName(events.KindNamespace, "", "team")
	for env, want := range map[string]bool{"dev": true, "prod": false} {
		after, _ := namespaces(env).ObjectByName(events.KindNamespace, "", "team")
		change := rule.ObjectChange(state.ObjectChange{Kind: events.KindNamespace, Before: before, After: after})
		if got := p.Wakes(in.Pod, []string{names.InterPodAffinity}, change); got != want {
			t.Errorf("namespace prod becomes %s: wakes %v, want %v", env, got, want)
		}
	}
}

// TestIgnorePreferredTerms checks that the preferences of existing pods count for a pod without any, unless the
// profile says otherwise.
func TestIgnorePreferredTerms(t *testing.T) {
	for ignore, want := range map[bool]string{false: "b1=x1 a1=a2", true: "a1=a2=b1=x1"} {
		cfg := placement.ProfileConfig{SchedulerName: "s", Plugins: []placement.PluginConfig{{
			Name: names.InterPodAffinity, Args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: ignore},
		}}}
		p, err := placement.NewProfile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		nodes := zones()
		nodes["a1"].AddPod(app("db", "there", prefersAway(term(zone, "web"))))
		in := placement.Input{Pod: app("web", "p"), Nodes: inOrder(nodes), Details: true, Limit: -1}
		if got := ranking(p.Evaluate(in), names.InterPodAffinity); got != want {
			t.Errorf("ignore %v: order %q, want %q", ignore, got, want)
		}
	}
}
