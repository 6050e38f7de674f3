package preempt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
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

func newProfile(t testing.TB, cfg placement.ProfileConfig) *placement.Profile {
	t.Helper()
	p, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const zone = corev1.LabelTopologyZone

func preemptionArgs(percentage, absolute int32) *configv1.DefaultPreemptionArgs {
	return &configv1.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute,
	}
}

// scene is a cluster for one preemption: nodes a1, a2 in zone a and b1 in zone b, with two processors each.
type scene struct {
	nodes   map[string]*state.NodeInfo
	objects placementtest.Cluster
	in      preempt.Input
	config  placement.PreemptionConfig
	started int64
}

func newScene() *scene {
	s := &scene{nodes: map[string]*state.NodeInfo{}}
	for name, in := range map[string]string{"a1": "a", "a2": "a", "b1": "b"} {
		obj := statetest.Node(name, "cpu", "2", "memory", "8Gi", "pods", "110")
		obj.Labels[zone] = in
		s.nodes[name] = state.NewNodeInfo(state.NewNode(obj))
	}
	return s
}

// cordon cordons nodes.
func (s *scene) cordon(names ...string) *scene {
	for _, name := range names {
		obj := *s.nodes[name].Node.Object
		obj.Spec.Unschedulable = true
		s.nodes[name].SetNode(state.NewNode(&obj))
	}
	return s
}

// pod adds a pod app=name with a priority and this much cpu; later ones started later.
func (s *scene) pod(node, name string, priority int32, cpu string, edits ...func(*corev1.Pod)) *scene {
	s.started++
	p := statetest.Pod("default", name, "cpu", cpu)
	p.Labels = map[string]string{"app": name}
	p.Spec.NodeName, p.Spec.Priority = node, &priority
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &metav1.Time{Time: time.Unix(1_700_000_000+s.started, 0)}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, edit := range edits {
		edit(p)
	}
	s.nodes[node].AddPod(state.NewPod(p))
	return s
}

// budget adds a budget for app=name.
func (s *scene) budget(name string, allowed int32, edits ...func(*policyv1.PodDisruptionBudget)) *scene {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint(name, "-", len(s.objects.Others[events.KindDisruptionBudget])),
		},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: selecting(name)},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
	b.UID = types.UID("uid-" + b.Name)
	for _, edit := range edits {
		edit(b)
	}
	s.objects.Apply(placementtest.Event{Kind: events.KindDisruptionBudget, New: b})
	return s
}

// preempt calls Run for a pod app=new with a priority.
func (s *scene) preempt(t *testing.T, priority int32, cpu string, edits ...func(*corev1.Pod)) preempt.Result {
	t.Helper()
	cfg := placement.DefaultProfile("default-scheduler")
	cfg.Preemption = s.config
	p := statetest.Pod("default", "new", "cpu", cpu)
	p.Labels = map[string]string{"app": "new"}
	p.Spec.Priority = &priority
	for _, edit := range edits {
		edit(p)
	}
	view := placementtest.NewView()
	for _, e := range s.objects.Events() {
		view.Apply(e)
	}
	s.in.Pod, s.in.Nodes, s.in.Objects = state.NewPod(p), inOrder(s.nodes), view.Objects()
	s.in.Budgets = preempt.NewBudgets(view.Objects(), nil)
	return preempt.Run(newProfile(t, cfg), s.in)
}

// planned returns "node: victim@node ...; keep pod; budget".
func planned(r preempt.Result) string {
	if r.Err != nil {
		return "error: " + r.Err.Error()
	}
	if r.Node == nil {
		return strings.Join(append([]string{r.Message}, r.Advice...), "\n")
	}
	var b strings.Builder
	b.WriteString(r.Node.Node.Name + ":")
	for _, v := range r.Victims {
		b.WriteString(" " + v.Pod.Name)
		if v.Node != r.Node {
			b.WriteString("@" + v.Node.Node.Name)
		}
	}
	for _, k := range r.Keepers {
		b.WriteString("; keep " + k.Pod.Name)
	}
	for _, u := range r.Budgets {
		fmt.Fprintf(&b, "; %s %d", u.Budget.Name, u.Disruptions)
	}
	if r.Waiting {
		b.WriteString("; waiting")
	}
	return b.String()
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func relabelled(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
}

// TestPreemptWhatKubeSchedulerCannot checks the two weaknesses of preemption that a decision can fix, with and
// without Berth's options.
func TestPreemptWhatKubeSchedulerCannot(t *testing.T) {
	skewed := func() *scene { // zone a has two pods, b none: zone a has one too many
		return newScene().cordon("a2", "b1").pod("a1", "batch", 0, "1").pod("a1", "db", 1000, "1").
			pod("a2", "new", 5, "1").pod("a2", "new2", 4, "1", relabelled("new"))
	}
	overSkew := spread(zone, corev1.DoNotSchedule, func(c *corev1.TopologySpreadConstraint) {
		c.LabelSelector = selecting("new")
	})
	tests := map[string]struct {
		scene      *scene
		edit       func(*corev1.Pod)
		want, with string // without Berth's options
	}{
		"affinity to a victim": {
			newScene().cordon("a2", "b1").pod("a1", "cache", 10, "1").pod("a1", "batch", 20, "1"), near(term(zone, "cache")),
			"a1: batch; keep cache",
			"preemption: 0/3 nodes are available: 1 node(s) didn't match pod affinity rules, " +
				"2 Preemption is not helpful for scheduling.",
		},
		"the provider elsewhere is enough": {
			newScene().cordon("a2", "b1").pod("a1", "cache", 10, "1").pod("a1", "batch", 20, "1").pod("a2", "cache", 5, "1"),
			near(term(zone, "cache")),
			"a1: cache; keep cache", "a1: cache; keep cache",
		},
		"anti-affinity of a pod elsewhere": {
			newScene().cordon("a1", "b1").pod("a1", "loner", 10, "1", away(term(zone, "new"))), nil,
			"a2: loner@a1",
			"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, " +
				"2 Preemption is not helpful for scheduling.",
		},
		"anti-affinity to pods elsewhere": {
			newScene().cordon("a1", "b1").pod("a1", "rival", 10, "1").pod("a1", "rival2", 10, "1", relabelled("rival")),
			away(term(zone, "rival")),
			"a2: rival@a1 rival2@a1",
			"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, " +
				"2 Preemption is not helpful for scheduling.",
		},
		"spread over pods elsewhere": {
			skewed(), overSkew,
			"a1: new@a2 new2@a2 batch",
			"preemption: 0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, " +
				"2 Preemption is not helpful for scheduling.",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			edits := []func(*corev1.Pod){}
			if test.edit != nil {
				edits = append(edits, test.edit)
			}
			if got := planned(test.scene.preempt(t, 100, "1", edits...)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			test.scene.config = placement.PreemptionConfig{SameNodeOnly: true, NoKeepers: true}
			r := test.scene.preempt(t, 100, "1", edits...)
			r.Advice = nil
			if got := planned(r); got != test.with {
				t.Errorf("without: got  %s\nwant %s", got, test.with)
			}
		})
	}
}

// TestPreemptCrossNodeLimits checks a pod elsewhere that must not be evicted, and more pods than are allowed.
func TestPreemptCrossNodeLimits(t *testing.T) {
	s := newScene().cordon("a1", "b1")
	for i := range 3 {
		s.pod("a1", fmt.Sprint("rival", i), 10, "100m", relabelled("rival"))
	}
	s.config.MaxBlockers = 2
	const advice = "\nOn 1 node(s), more than 2 pods on other nodes would have to go as well " +
		"(preemption.crossNode.maxBlockers)."
	if got := planned(s.preempt(t, 100, "1", away(term(zone, "rival")))); !strings.HasSuffix(got, advice) {
		t.Errorf("got %s", got)
	}
	s.config.MaxBlockers = 3
	if got := planned(s.preempt(t, 100, "1", away(term(zone, "rival")))); got != "a2: rival0@a1 rival1@a1 rival2@a1" {
		t.Errorf("got %s", got)
	}
	s.pod("a1", "boss", 1000, "100m", relabelled("rival"))
	if r := s.preempt(t, 100, "1", away(term(zone, "rival"))); r.Node != nil {
		t.Errorf("got %s, want nothing: one of them is more important", planned(r))
	}
}

// TestPreemptAndBudgets checks which budgets are respected, what counts, and which pods cannot be evicted at all.
func TestPreemptAndBudgets(t *testing.T) {
	full := func() *scene {
		return newScene().cordon("a2", "b1").pod("a1", "web", 0, "1").pod("a1", "web2", 0, "1", relabelled("web"))
	}
	kept := "preemption: 0/3 nodes are available: " +
		"1 node(s) where disruption budgets keep the pods that would have to go, " +
		"2 Preemption is not helpful for scheduling.\n" +
		"On 1 node(s), the pods that would have to go are kept by disruption budgets."
	phase := func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	pods := func(edits ...func(*corev1.Pod)) *scene {
		return newScene().cordon("a2", "b1").pod("a1", "web", 0, "2", edits...)
	}
	tests := map[string]struct {
		scene *scene
		cpu   string
		want  string
	}{
		"room for one":          {full().budget("web", 1), "1", "a1: web2; web-0 1"},
		"room for one, two due": {full().budget("web", 1), "2", kept},
		"room for two":          {full().budget("web", 2), "2", "a1: web web2; web-0 2"},
		"no room":               {full().budget("web", 0), "1", kept},
		"no room but for batch": {
			newScene().cordon("b1").pod("a1", "web", 0, "2").pod("a2", "batch", 50, "2").budget("web", 0), "1", "a2: batch",
		},
		"two budgets":     {pods().budget("web", 5).budget("web", 5), "1", kept},
		"not started yet": {pods(phase).budget("web", 0).budget("web", 0), "1", "a1: web"},
		"leaving":         {pods(leaving).budget("web", 0), "1", "a1: web; waiting"},
		"unready":         {pods(unready).budget("web", 0), "1", kept},
		"unready, and free": {
			pods(unready).budget("web", 0, func(b *policyv1.PodDisruptionBudget) {
				policy := policyv1.AlwaysAllow
				b.Spec.UnhealthyPodEvictionPolicy = &policy
			}), "1", "a1: web",
		},
		"unready, enough others": {
			pods(unready).budget("web", 0, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DesiredHealthy, b.Status.CurrentHealthy = 2, 2
			}), "1", "a1: web",
		},
		"status out of date": {
			full().budget("web", 2, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }), "1", kept,
		},
		"empty selector": {
			full().budget("web", 0, func(b *policyv1.PodDisruptionBudget) {
				b.Spec.Selector = &metav1.LabelSelector{}
			}), "1", kept,
		},
		"no selector": {
			full().budget("web", 0, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }), "1", "a1: web2",
		},
		"counted already": {
			pods().budget("web", 0, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{"web": {}}
			}), "1", kept, // the pod has not been deleted for it, or not yet
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := planned(test.scene.preempt(t, 100, test.cpu)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	best := full().budget("web", 1)
	best.config.PDB = placement.PDBBestEffort
	if r := best.preempt(t, 100, "2"); planned(r) != "a1: web web2; web-0 2" || r.Cost.Violations != 1 {
		t.Errorf("best effort: %s, %d too many", planned(r), r.Cost.Violations)
	}
}

// TestPreemptAdvice checks the explanation of why preemption cannot help.
func TestPreemptAdvice(t *testing.T) {
	s := newScene().cordon("b1").pod("a1", "x", 100, "2").pod("a2", "y", 200, "2")
	want := "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, " +
		"2 No preemption victims found for incoming pod.\n" +
		"Preemption cannot help: on the 2 node(s) where pods are in the way, all are as important as this one (priority 100)."
	if got := planned(s.preempt(t, 100, "1")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = newScene().cordon("a2", "b1").pod("a1", "cache", 10, "1").pod("a1", "db", 1000, "1")
	want = "preemption: 0/3 nodes are available: 1 node(s) didn't match pod affinity rules, " +
		"2 Preemption is not helpful for scheduling.\n" +
		"Required affinity (\"app=cache\" by topology.kubernetes.io/zone) needs pod default/cache on node a1, which has " +
		"priority 10 and would have to go for this one (priority 100): raise its priority, or make room on its node."
	if got := planned(s.preempt(t, 100, "1", near(term(zone, "cache")))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestPreemptEligibility checks which pods may not preempt, and which may preempt again.
func TestPreemptEligibility(t *testing.T) {
	byScheduler := func(p *corev1.Pod) {
		leaving(p)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		})
	}
	nominated := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
	}
	s := newScene().pod("a1", "old", 0, "2", byScheduler).pod("a2", "x", 0, "2").pod("b1", "y", 0, "2")
	r := s.preempt(t, 100, "1", nominated("a1"))
	const terminating = "preemption: not eligible due to a terminating pod on the nominated node."
	if r.Message != terminating || !r.KeepNomination {
		t.Errorf("got %s, keep %t", planned(r), r.KeepNomination)
	}
	if r = s.preempt(t, 100, "1", nominated("a2")); r.Node == nil {
		t.Errorf("nominated where nothing leaves: %s", planned(r))
	}
	s.cordon("a1")
	if r = s.preempt(t, 100, "1", nominated("a1")); r.Node == nil || r.Node.Node.Name == "a1" {
		t.Errorf("nominated to a node that has been cordoned: %s", planned(r))
	}
	never := func(p *corev1.Pod) {
		policy := corev1.PreemptNever
		p.Spec.PreemptionPolicy = &policy
	}
	if r = s.preempt(t, 100, "1", never); r.Message != "preemption: not eligible due to preemptionPolicy=Never." {
		t.Errorf("got %s", planned(r))
	}
	if r = s.preempt(t, 100, "1", named("no-such-node")); r.Node != nil || r.Err != nil {
		t.Errorf("got %s", planned(r))
	}
	if r = newScene().preempt(t, 100, "1"); r.Err == nil || !strings.Contains(r.Err.Error(), "which fits on node a1") {
		t.Errorf("a pod that fits: %v", r.Err)
	}
}

// TestPreemptPrefers checks that terminating victims cost nothing, that reservations are distinguished from pods,
// and that protected pods stay.
func TestPreemptPrefers(t *testing.T) {
	s := newScene().cordon("b1").pod("a1", "old", 50, "2", leaving).pod("a2", "x", 0, "2")
	r := s.preempt(t, 100, "1")
	if planned(r) != "a1: old; waiting" || r.Cost.Victims != 0 || !r.Victims[0].Leaving {
		t.Errorf("got %s at %+v", planned(r), r.Cost)
	}
	s.config.ChargeLeaving = true
	if got := planned(s.preempt(t, 100, "1")); got != "a2: x" {
		t.Errorf("charging for what leaves: %s", got)
	}
	s = newScene().cordon("a2", "b1").pod("a1", "x", 0, "1").pod("a1", "y", 50, "1")
	s.in.Protected = map[string]bool{"uid-x": true}
	if got := planned(s.preempt(t, 100, "1")); got != "a1: y" {
		t.Errorf("x is protected: %s", got)
	}
	s = newScene().cordon("a2", "b1").pod("a1", "x", 0, "2")
	for p := range s.nodes["a1"].Pods() {
		held := *p
		held.NodeName = ""
		s.nodes["a1"].AddPod(&held)
	}
	if r := s.preempt(t, 100, "1"); r.Node == nil || !r.Victims[0].Reserved {
		t.Errorf("a reservation: %s", planned(r))
	}
}

// TestPreemptRequests: a pod whose eviction can only be requested is a victim whatever its budget has left, unless it
// has two. Ordinary pods stay, and of two pods that would do, the one that its budget allows goes.
func TestPreemptRequests(t *testing.T) {
	requested := func(p *corev1.Pod) { p.Annotations = map[string]string{state.AnnotationRequestEvictOnly: ""} }
	const kept = "preemption: 0/3 nodes are available: 1 node(s) where disruption budgets keep the pods that would " +
		"have to go, 2 Preemption is not helpful for scheduling."
	for name, tt := range map[string]struct {
		scene *scene
		want  string
	}{
		"ordinary":  {newScene().cordon("a2", "b1").pod("a1", "vm", 10, "2").budget("vm", 0), kept},
		"requested": {newScene().cordon("a2", "b1").pod("a1", "vm", 10, "2", requested).budget("vm", 0), "a1: vm; vm-0 1"},
		"two budgets": {
			newScene().cordon("a2", "b1").pod("a1", "vm", 10, "2", requested).budget("vm", 0).budget("vm", 0), kept,
		},
		"another will do": {
			newScene().cordon("a2", "b1").pod("a1", "vm", 10, "1", requested).pod("a1", "web", 10, "1").budget("vm", 0),
			"a1: web",
		},
		"both": {
			newScene().cordon("a2", "b1").pod("a1", "vm", 10, "1", requested).pod("a1", "vm2", 20, "1", relabelled("vm")).
				budget("vm", 0),
			kept,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cpu := "2"
			if name == "another will do" {
				cpu = "1"
			}
			got := planned(tt.scene.preempt(t, 100, cpu))
			if tt.want == kept {
				got, _, _ = strings.Cut(got, "\n")
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
