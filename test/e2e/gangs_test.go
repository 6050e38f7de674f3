//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Gangs on an API server that has groups of pods on, with several shards and binders.
func TestGangs(t *testing.T) {
	t.Parallel()
	s := newStackOf(t, harness.ClusterConfig{
		RuntimeConfig: "scheduling.k8s.io/v1alpha2=true",
		FeatureGates:  "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
	})
	s.auditShows = "gangs: members of a group were reserved at "
	s.up(harness.UpConfig{Shards: 3, Binders: 2})
	for i, test := range []struct {
		name string
		run  func(g *gangStack)
	}{
		{"all members or none", allOrNothing},
		{"two gangs and room for one", twoGangs},
		{"in one rack", inOneRack},
		{"a group that is no gang", basicGroup},
		{"a group that comes after its pods", lateGroup},
		{"evictions for all members or for none", evictsForAll},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			g := &gangStack{stack: &inner, ns: inner.namespace(fmt.Sprintf("gangs-%d", i)), pool: fmt.Sprintf("pool-%d", i)}
			test.run(g)
			inner.audit()
		})
	}
}

// gangStack is a cluster with nodes of one test's own.
type gangStack struct {
	*stack
	ns, pool string
	nodes    int
}

// addRoom adds nodes with room for some pods of 100m each, in a rack.
func (g *gangStack) addRoom(nodes, pods int, rack string) {
	g.Helper()
	for range nodes {
		g.nodes++
		g.addNodes(nodeSpec{
			name: fmt.Sprintf("%s-n%d", g.pool, g.nodes), capacity: fmt.Sprintf("%dm", 100*pods),
			labels: map[string]string{"pool": g.pool, "rack": rack},
		})
	}
}

// group creates a PodGroup; minCount 0 is the policy "basic".
func (g *gangStack) group(name string, minCount int32, topology ...string) {
	g.Helper()
	obj := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns, Name: name}}
	obj.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	if minCount > 0 {
		obj.Spec.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount},
		}
	}
	for _, key := range topology {
		obj.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha2.TopologyConstraint{{Key: key}},
		}
	}
	_, err := g.client.SchedulingV1alpha2().PodGroups(g.ns).Create(g.Context(), obj, metav1.CreateOptions{})
	g.must(err)
}

// members creates pods of a group.
func (g *gangStack) members(group string, from, to int, options ...func(*corev1.Pod)) {
	g.Helper()
	for i := from; i < to; i++ {
		g.create(newPod(g.ns, fmt.Sprintf("%s-%d", group, i), "100m", func(p *corev1.Pod) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
			p.Spec.NodeSelector = map[string]string{"pool": g.pool}
			for _, option := range options {
				option(p)
			}
		}))
	}
}

// boundOf returns the nodes of the bound members of a group.
func (g *gangStack) boundOf(group string) (nodes []string) {
	g.Helper()
	for _, p := range g.pods(g.ns) {
		if strings.HasPrefix(p.Name, group+"-") && p.Spec.NodeName != "" {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	return nodes
}

// placed waits until this many members of a group are bound, and the group's condition is True.
func (g *gangStack) placed(group string, members int) {
	g.Helper()
	g.eventually(placedWithin, "the group "+group+" is placed", func(ctx context.Context) (string, error) {
		if n := len(g.boundOf(group)); n != members {
			return fmt.Sprintf("%d of %d members are bound", n, members), nil
		}
		return g.conditionOf(ctx, group, metav1.ConditionTrue, "Scheduled", "")
	})
}

// waits waits until the condition of a group is False, with this part of a message. No member may be bound.
func (g *gangStack) waits(group, part string) {
	g.Helper()
	g.eventually(placedWithin, "the group "+group+" waits", func(ctx context.Context) (string, error) {
		if n := len(g.boundOf(group)); n != 0 {
			return "", fmt.Errorf("%d members are bound", n)
		}
		return g.conditionOf(ctx, group, metav1.ConditionFalse, schedulingv1alpha2.PodGroupReasonUnschedulable, part)
	})
}

// conditionOf returns what of a group's condition is not as wanted.
func (g *gangStack) conditionOf(
	ctx context.Context, group string, status metav1.ConditionStatus, reason, part string,
) (string, error) {
	obj, err := g.client.SchedulingV1alpha2().PodGroups(g.ns).Get(ctx, group, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(obj.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		return fmt.Sprintf("condition %+v", c), nil
	}
	return "", nil
}

// allOrNothing: a gang that does not fit holds nothing, and is placed once it does.
func allOrNothing(g *gangStack) {
	g.addRoom(2, 4, "r1")
	g.group("train", 10)
	g.members("train", 0, 10)
	g.waits("train", "pod group is unschedulable")
	g.waitsFor(g.ns, "train-0", "")
	g.explains("train", "minCount 10", "10 pods: 10 waiting", "10 of the waiting pods must find a node together",
		"room: 8 of the smallest waiting pods fit on ")
	g.addRoom(1, 2, "r1")
	g.placed("train", 10)
}

// explains requires parts of the answer to `berth explain gang`.
func (g *gangStack) explains(group string, parts ...string) {
	g.Helper()
	for dir := range g.ledgers() {
		result, err := programs.Command(g.Context(), "explain", "gang", g.ns+"/"+group, "--data-dir", dir)
		g.must(err)
		for _, part := range parts {
			if result.Code != 0 || !strings.Contains(result.Stdout, part) {
				g.Errorf("berth explain gang: exit code %d, %s\n%s\nwant %q", result.Code, result.Stderr, result.Stdout, part)
			}
		}
	}
}

// twoGangs: of two gangs one is placed, and the other one when that has gone.
func twoGangs(g *gangStack) {
	g.addRoom(4, 2, "r1")
	g.group("one", 5)
	g.group("two", 5)
	for i := range 5 {
		g.members("one", i, i+1)
		g.members("two", i, i+1)
	}
	first, second := "one", "two"
	g.eventually(placedWithin, "one of two gangs is placed", func(context.Context) (string, error) {
		one, two := len(g.boundOf("one")), len(g.boundOf("two"))
		if one+two > 5 || one > 0 && two > 0 {
			return "", fmt.Errorf("%d and %d members are bound", one, two)
		}
		if two == 5 {
			first, second = "two", "one"
		}
		if one+two < 5 {
			return fmt.Sprintf("%d and %d members are bound", one, two), nil
		}
		return "", nil
	})
	g.placed(first, 5)
	g.waits(second, "")
	for i := range 5 {
		g.must(g.client.CoreV1().Pods(g.ns).Delete(g.Context(), fmt.Sprintf("%s-%d", first, i), metav1.DeleteOptions{}))
	}
	g.placed(second, 5)
}

// inOneRack: all members are in one rack, the one with the least room that is enough.
func inOneRack(g *gangStack) {
	g.addRoom(2, 2, "small")
	g.addRoom(3, 2, "fit")
	g.addRoom(4, 4, "large")
	g.group("ring", 6, "rack")
	g.members("ring", 0, 6)
	g.placed("ring", 6)
	for _, node := range g.boundOf("ring") {
		obj, err := g.client.CoreV1().Nodes().Get(g.Context(), node, metav1.GetOptions{})
		g.must(err)
		if rack := obj.Labels["rack"]; rack != "fit" {
			g.Errorf("a member is on %s in rack %s, want rack fit", node, rack)
		}
	}
	g.group("wide", 17, "rack")
	g.members("wide", 0, 17)
	g.waits("wide", "placements are available: 16 of 17 members fit in the best one, large")
}

// basicGroup: members are placed one by one, and the group is scheduled with the first.
func basicGroup(g *gangStack) {
	g.addRoom(1, 2, "r1")
	g.group("loose", 0)
	g.members("loose", 0, 3)
	g.placed("loose", 2)
}

// lateGroup: pods wait for their group without a condition, as upstream's do.
func lateGroup(g *gangStack) {
	g.addRoom(1, 3, "r1")
	g.members("late", 0, 3)
	g.eventually(placedWithin, "the pods wait for their group", func(ctx context.Context) (string, error) {
		for _, p := range g.pods(g.ns) {
			if p.Spec.NodeName != "" || len(p.Status.Conditions) > 0 {
				return "", fmt.Errorf("%s is on %q, with conditions %v", p.Name, p.Spec.NodeName, p.Status.Conditions)
			}
		}
		return "", nil
	})
	g.group("late", 3)
	g.placed("late", 3)
}

// evictsForAll: no pod is evicted for a gang that could not start anyway. When it could, all that are in the way are.
func evictsForAll(g *gangStack) {
	const inTheWay = 3
	g.priorityClass("gang", 1000)
	g.addRoom(4, 1, "r1")
	for i := range inTheWay {
		g.create(newPod(g.ns, fmt.Sprintf("low-%d", i), "100m", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"pool": g.pool}
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
		}))
	}
	low := func() (running int) {
		for _, p := range g.pods(g.ns) {
			if strings.HasPrefix(p.Name, "low-") && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
				running++
			}
		}
		return running
	}
	g.eventually(placedWithin, "the pods in the way run", func(context.Context) (string, error) {
		if n := low(); n < inTheWay {
			return fmt.Sprintf("%d of %d do", n, inTheWay), nil
		}
		return "", nil
	})
	important := func(p *corev1.Pod) { p.Spec.PriorityClassName = "gang" }
	g.group("big", 5)
	g.members("big", 0, 5, important)
	g.waits("big", "pod group is unschedulable")
	if n := low(); n != inTheWay {
		g.Errorf("%d of %d pods run after a gang was rejected for which there are too few nodes", n, inTheWay)
	}
	g.addRoom(1, 1, "r1")
	g.placed("big", 5)
	if n := low(); n != 0 {
		g.Errorf("%d pods run that are in the way of the gang", n)
	}
}
