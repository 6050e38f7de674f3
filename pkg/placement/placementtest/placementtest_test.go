package placementtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// history draws a cluster and its changes.
func history(g *placementtest.Generator, changes int) (start placementtest.Cluster, list []placementtest.Event) {
	start = g.Cluster()
	c := start.Clone()
	for range changes {
		list = append(list, c.Apply(g.Event(&c)))
	}
	return start, list
}

// TestSeed checks that equal seeds give equal input and another seed gives another.
func TestSeed(t *testing.T) {
	draw := func(seed uint64) string {
		g := placementtest.New(seed)
		c, changes := history(g, 50)
		script := placementtest.NewScript(&c)
		for _, e := range changes {
			script = append(script, placementtest.Step{Event: e})
		}
		script = append(script, placementtest.Step{Pod: g.Incoming(&c)})
		return script.String() + fmt.Sprint(g.Profile().Plugins)
	}
	first := draw(7)
	if again := draw(7); again != first {
		t.Error("two draws of one seed differ")
	}
	if draw(8) == first {
		t.Error("two seeds give the same input")
	}
}

// summary returns the comparable parts of a view.
func summary(v *placementtest.View) map[string][]string {
	m := map[string][]string{}
	for _, n := range v.Nodes() {
		lines := []string{n.Node.UID, fmt.Sprint(n.Requested), fmt.Sprint(n.NonZeroRequested)}
		for p := range n.Pods() {
			lines = append(lines, p.UID+fmt.Sprint(p.Template.Labels))
		}
		m[n.Node.Name] = lines
	}
	for _, k := range placementtest.Kinds() {
		for o := range v.Objects().Objects(k) {
			m[string(k)] = append(m[string(k)], o.UID+o.Namespace+o.Name)
		}
	}
	return m
}

// TestView checks that a view that followed every change equals a view of the final cluster.
func TestView(t *testing.T) {
	seed := seedtest.First(t, 0)
	g := placementtest.New(seed)
	c := g.Cluster()
	follower := &mirror{pods: map[*state.NodeInfo][]*state.Pod{}}
	view := placementtest.NewView(follower)
	for _, e := range c.Events() {
		view.Apply(e)
	}
	for i := range 500 {
		e := g.Event(&c)
		c.Apply(e)
		view.Apply(e)
		fresh := placementtest.NewView()
		for _, e := range c.Events() {
			fresh.Apply(e)
		}
		if diff := cmp.Diff(summary(fresh), summary(view)); diff != "" {
			t.Fatalf("seed %d, change %d, %s: want (-), got (+):\n%s", seed, i, e, diff)
		}
		if problem := follower.compare(view); problem != "" {
			t.Fatalf("seed %d, change %d, %s: the follower: %s", seed, i, e, problem)
		}
	}
}

// mirror is a follower that records the changes it receives.
type mirror struct {
	pods    map[*state.NodeInfo][]*state.Pod
	objects rule.Objects
}

func (m *mirror) SetNode(n *state.NodeInfo)  { m.pods[n] = slices.Collect(n.Pods()) }
func (m *mirror) DropNode(n *state.NodeInfo) { delete(m.pods, n) }

func (m *mirror) ChangePod(n *state.NodeInfo, before, after *state.Pod) {
	if before != nil {
		i := slices.Index(m.pods[n], before)
		m.pods[n] = slices.Delete(m.pods[n], i, i+1)
	}
	if after != nil {
		m.pods[n] = append(m.pods[n], after)
	}
}

func (m *mirror) SetObjects(o rule.Objects) { m.objects = o }

func (m *mirror) compare(v *placementtest.View) string {
	if len(m.pods) != len(v.Nodes()) {
		return fmt.Sprintf("%d nodes, want %d", len(m.pods), len(v.Nodes()))
	}
	for _, n := range v.Nodes() {
		want := slices.Collect(n.Pods())
		got := slices.SortedFunc(slices.Values(m.pods[n]), func(a, b *state.Pod) int {
			return strings.Compare(a.UID, b.UID)
		})
		if !slices.Equal(want, got) {
			return fmt.Sprintf("node %s: %d pods, want %d", n.Node.Name, len(got), len(want))
		}
	}
	return ""
}

// TestCatalog checks that a view gives the same answers about other objects as a store that read the facts.
func TestCatalog(t *testing.T) {
	seed := seedtest.First(t, 0)
	g := placementtest.New(seed)
	c := g.Cluster()
	view, store, history := placementtest.NewView(), state.New(), &statetest.History{}
	list := c.Events()
	for range 400 {
		list = append(list, c.Apply(g.Event(&c)))
	}
	for _, e := range list {
		view.Apply(e)
		switch {
		case e.Kind == events.KindPod || e.Kind == events.KindNode:
		case e.New != nil:
			history.Upsert(e.Kind, e.New.(runtime.Object).DeepCopyObject().(state.APIObject))
		case e.Old != nil:
			history.Delete(e.Kind, string(e.Old.GetUID()))
		}
	}
	if _, err := store.Apply(history.Facts); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	want, got := answers(store.Snapshot()), answers(view.Objects())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: the store (-) and the view (+) differ:\n%s", seed, diff)
	}
}

// answers collects all answers about objects.
func answers(o rule.Objects) []string {
	var list []string
	for _, k := range placementtest.Kinds() {
		for each := range o.Objects(k) {
			list = append(list, fmt.Sprintf("%s %s/%s %v", k, each.Namespace, each.Name, each.API.GetLabels()))
			found, ok := o.ObjectByName(k, each.Namespace, each.Name)
			list = append(list, fmt.Sprint(ok && found == each))
		}
		for _, namespace := range []string{"", "default", "team", "lost", "none"} {
			for each := range o.ObjectsIn(k, namespace) {
				list = append(list, fmt.Sprintf("in %s %s", namespace, each.UID))
			}
		}
		_, ok := o.ObjectByName(k, "default", "absent")
		list = append(list, fmt.Sprint(ok))
	}
	return list
}

// TestShrink checks that what a made-up failure needs is left, and little else.
func TestShrink(t *testing.T) {
	g := placementtest.New(1)
	c := g.Cluster()
	script := placementtest.NewScript(&c)
	waiting := g.Incoming(&c)
	waiting.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "a"}, {TopologyKey: "b"}}
	for range 20 {
		script = append(script, placementtest.Step{Event: c.Apply(g.Event(&c))})
	}
	script = append(script, placementtest.Step{Pod: waiting})
	small := placementtest.Shrink(script, func(s placementtest.Script) bool {
		nodes, asked := 0, false
		for _, step := range s {
			if step.Pod == nil {
				if step.Event.Kind == events.KindNode && step.Event.New != nil {
					nodes++
				}
				continue
			}
			asked = slices.ContainsFunc(step.Pod.Spec.TopologySpreadConstraints,
				func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == "a" })
		}
		return nodes >= 2 && asked
	})
	if len(small) != 3 || len(small[2].Pod.Spec.TopologySpreadConstraints) != 1 || small[2].Pod.Spec.Affinity != nil ||
		len(small[0].Event.New.GetLabels()) != 0 {
		t.Errorf("left over:\n%s", small)
	}
}
