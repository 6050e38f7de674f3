package placement_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// cutLabels gives a pod a label, and the mark that others have been cut.
func cutLabels(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value, strip.LabelsCut: ""} }
}

// TestPodsWhoseLabelsAreCut checks that what a selector cannot know about a pod on a1 is decided in the stricter
// way, by the engine as well.
func TestPodsWhoseLabelsAreCut(t *testing.T) {
	other := app("", "there", cutLabels("tier", "x"))
	web := app("", "there", cutLabels("app", "web"))
	db := app("", "there", cutLabels("app", "db"))
	for name, test := range map[string]struct {
		there *state.Pod
		pod   *state.Pod
		want  string
	}{
		"anti-affinity to what it may be":     {other, app("web", "p", away(term(zone, "db"))), "b1 x1"},
		"anti-affinity to what it is":         {db, app("web", "p", away(term(zone, "db"))), "b1 x1"},
		"anti-affinity to what it is not":     {web, app("web", "p", away(term(zone, "db"))), "a1 a2 b1 x1"},
		"affinity to what it may be":          {other, app("web", "p", near(term(zone, "db"))), ""},
		"affinity to what it is":              {db, app("web", "p", near(term(zone, "db"))), "a1 a2"},
		"spread, it may count":                {other, app("web", "p", spread(zone, hard)), "b1"},
		"spread, it counts":                   {web, app("web", "p", spread(zone, hard)), "b1"},
		"spread, it does not count":           {db, app("web", "p", spread(zone, hard)), "a1 a2 b1"},
		"spread over nodes, it may count":     {other, app("web", "p", spread(hostname, hard)), "a2 b1 x1"},
		"anti-affinity over nodes, it may be": {other, app("web", "p", away(term(hostname, "db"))), "a2 b1 x1"},
	} {
		t.Run(name, func(t *testing.T) {
			byName := zones()
			byName["a1"].AddPod(test.there)
			agree(t, inOrder(byName), test.pod, test.want)
		})
	}
}

// Of two domains with one pod each, the one whose pod may not count may be empty, so a second pod must not be
// placed in the other.
func TestSpreadDoesNotCountOnPodsWhoseLabelsAreCut(t *testing.T) {
	byName := zones()
	byName["a1"].AddPod(app("web", "sure"))
	byName["b1"].AddPod(app("", "perhaps", cutLabels("tier", "x")))
	agree(t, inOrder(byName), app("web", "p", spread(zone, hard)), "")
	byName["b1"].RemovePod("uid-perhaps")
	byName["b1"].AddPod(app("web", "sure-too"))
	agree(t, inOrder(byName), app("web", "p", spread(zone, hard)), "a1 a2 b1")
}

// The pod on a1 may be of the kind that the affinity selects, so no pod is the first of that kind.
func TestFirstOfItsKindNextToPodsWhoseLabelsAreCut(t *testing.T) {
	byName := zones()
	byName["a1"].AddPod(app("", "perhaps", cutLabels("tier", "x")))
	web := app("web", "p", near(term(zone, "web")))
	agree(t, inOrder(byName), web, "")
	byName["b1"].AddPod(app("web", "sure"))
	agree(t, inOrder(byName), web, "b1")
	byName["b1"].RemovePod("uid-sure")
	byName["a1"].RemovePod("uid-perhaps")
	byName["a1"].AddPod(app("", "other", cutLabels("app", "db")))
	agree(t, inOrder(byName), web, "a1 a2 b1")
}

// A pod that may be of that kind is added and removed: an engine that has already evaluated follows, and the
// waiting pod is woken by the removal.
func TestFirstOfItsKindFollowsPodsWhoseLabelsAreCut(t *testing.T) {
	byName, p := zones(), profileOf(t)
	e := engine.New(engine.Config{})
	for _, n := range inOrder(byName) {
		e.SetNode(n)
		e.SetUsable(n, true)
	}
	web, a1 := app("web", "p", near(term(zone, "web"))), byName["a1"]
	perhaps := app("", "perhaps", cutLabels("tier", "x"), func(p *corev1.Pod) { p.Spec.NodeName = "a1" })
	fits := func(want int) {
		t.Helper()
		if r := e.Evaluate(p, engine.Query{Pod: web, Limit: -1}); r.Err != nil || len(r.Feasible) != want {
			t.Errorf("%d nodes are feasible, %v; want %d", len(r.Feasible), r.Err, want)
		}
	}
	fits(3)
	a1.AddPod(perhaps)
	e.ChangePod(a1, nil, perhaps)
	fits(0)
	a1.RemovePod(perhaps.UID)
	e.ChangePod(a1, perhaps, nil)
	fits(3)
	gone := rule.PodChange(state.PodChange{Before: perhaps})
	if !p.Wakes(web, []string{names.InterPodAffinity}, gone) {
		t.Error("the pod is not woken")
	}
	other := app("", "other", cutLabels("app", "db"), func(p *corev1.Pod) { p.Spec.NodeName = "a1" })
	if p.Wakes(web, []string{names.InterPodAffinity}, rule.PodChange(state.PodChange{Before: other})) {
		t.Error("the pod is woken by one that could not be of its kind")
	}
}

// agree compares the results of the filters and the engine.
func agree(t *testing.T, all []*state.NodeInfo, pod *state.Pod, want string) {
	t.Helper()
	p := profileOf(t)
	if got := feasible(t, p, placement.Input{Pod: pod, Nodes: all}); got != want {
		t.Errorf("feasible %q, want %q", got, want)
	}
	e := engine.New(engine.Config{})
	for _, n := range all {
		e.SetNode(n)
		e.SetUsable(n, true)
	}
	r := e.Evaluate(p, engine.Query{Pod: pod, Limit: -1})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var names []string
	for _, s := range r.Feasible {
		names = append(names, s.Node.Node.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != want {
		t.Errorf("feasible by the engine %q, want %q", got, want)
	}
}

// A closed node does not take even a pod that tolerates everything, not even in a profile without
// NodeUnschedulable, while a cordoned node does.
func TestClosedNodesTakeNoPod(t *testing.T) {
	closed, cordoned := statetest.Node("closed", "pods", "110"), statetest.Node("cordoned", "pods", "110")
	closed.Annotations = map[string]string{strip.ClosedAnnotation: ""}
	closed.Spec.Unschedulable, cordoned.Spec.Unschedulable = true, true
	all := []*state.NodeInfo{
		state.NewNodeInfo(state.NewNode(closed)), state.NewNodeInfo(state.NewNode(cordoned)),
		nodeInfo("open", "pods", "110"),
	}
	everything := changed(statetest.Pod("default", "p"), func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	agree(t, all, everything, "cordoned open")
	agree(t, all, changed(statetest.Pod("default", "plain")), "open")
	cfg := placement.DefaultProfile("s")
	cfg.Plugins = slices.DeleteFunc(cfg.Plugins, func(c placement.PluginConfig) bool {
		return c.Name == names.NodeUnschedulable
	})
	p, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := feasible(t, p, placement.Input{Pod: everything, Nodes: all}); got != "cordoned open" {
		t.Errorf("feasible without the plugin %q", got)
	}
}

// TestBudgetsCoverPodsWhoseLabelsAreCut checks that a budget that may cover a pod is taken into account.
func TestBudgetsCoverPodsWhoseLabelsAreCut(t *testing.T) {
	facts := statetest.Snapshot(t, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selecting("web")},
	})
	running := func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "a1", corev1.PodRunning }
	budgets := preempt.NewBudgets(facts, nil)
	if n := len(budgets.Charged(app("", "p", cutLabels("tier", "x"), running))); n != 1 {
		t.Errorf("%d budgets cover a pod that may be of the budget, want 1", n)
	}
	if n := len(budgets.Charged(app("", "p", cutLabels("app", "db"), running))); n != 0 {
		t.Errorf("%d budgets cover a pod that is not of the budget", n)
	}
}
