package decide

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// These are the allocations that the core may make for events that help no pod, a fifth more than it makes, however
// many pods are parked: for a change of a node, and for a pod that is created, bound and runs.
const (
	allocationsOfNodeEvent = 33
	allocationsOfOtherPods = 64
)

func TestAllocationsOfEvents(t *testing.T) {
	const events = 200
	for _, parked := range []int{100, 5000} {
		c := newCrowd(t, parked)
		var nodes, pods []FactsApplied
		for i := range events + 1 {
			before := c.nodes["n"+strconv.Itoa(i)]
			object := before.Object.DeepCopy()
			object.Annotations = map[string]string{"seen": strconv.Itoa(i)}
			nodes = append(nodes, FactsApplied{Changes: state.Changes{
				Nodes: []state.NodeChange{{Before: before, After: state.NewNode(object)}}}})
			pods = append(pods, otherPod(i))
		}
		for name, kind := range map[string]struct {
			inputs []FactsApplied
			budget float64
		}{"nodes": {nodes, allocationsOfNodeEvent}, "pods of others": {pods, allocationsOfOtherPods}} {
			var next int
			got := testing.AllocsPerRun(events, func() { // and once more before
				in := kind.inputs[next]
				next++
				c.sequence++
				in.Position = waiting.Position{Sequence: c.sequence}
				c.step(in)
			})
			if got > kind.budget {
				t.Errorf("%s, %d pods parked: %.0f allocations, want at most %.0f", name, parked, got, kind.budget)
			}
		}
		if c.woken > 0 {
			t.Errorf("%d of %d pods woke, want none", c.woken, parked)
		}
	}
}

// otherPod returns the life of a pod that no parked pod waits for, from its creation until it runs.
func otherPod(i int) FactsApplied {
	object := statetest.Pod("other", "stranger"+strconv.Itoa(i), "cpu", "1")
	object.Labels = map[string]string{"app": "other"}
	pending := state.NewPod(object)
	object = object.DeepCopy()
	object.Spec.NodeName = "n" + strconv.Itoa(i)
	bound := state.NewPod(object)
	object = object.DeepCopy()
	object.Status.Phase = corev1.PodRunning
	return FactsApplied{Changes: state.Changes{Pods: []state.PodChange{
		{After: pending}, {Before: pending, After: bound}, {Before: bound, After: state.NewPod(object)},
	}}}
}
