package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestNumericTolerations: the comparison operators count in filter, score and hint.
func TestNumericTolerations(t *testing.T) {
	for _, test := range statetest.NumericTolerations() {
		t.Run(test.Name, func(t *testing.T) {
			obj := statetest.Pod("default", "a")
			obj.Spec.Tolerations = []corev1.Toleration{test.Toleration}
			pod := state.NewPod(obj)
			compiled, err := TaintToleration{}.Compile(pod, rule.NoObjects{})
			if err != nil {
				t.Fatal(err)
			}
			tainted := func(effect corev1.TaintEffect) *state.NodeInfo {
				n := statetest.Node("n")
				n.Spec.Taints = []corev1.Taint{{Key: test.Taint.Key, Value: test.Taint.Value, Effect: effect}}
				return state.NewNodeInfo(state.NewNode(n))
			}
			hard := tainted(corev1.TaintEffectNoSchedule)
			if passes := compiled.Filter.Check(hard) == rule.Success; passes != test.Tolerated {
				t.Errorf("the node passes: %t, want %t", passes, test.Tolerated)
			}
			count := compiled.Scorer.Score(tainted(corev1.TaintEffectPreferNoSchedule))
			if (count == 0) != test.Tolerated {
				t.Errorf("%d untolerated soft taints, want none: %t", count, test.Tolerated)
			}
			change := rule.Change{Kind: events.KindNode, NewNode: hard.Node}
			if wakes := (TaintToleration{}).Hint(pod, change); wakes != test.Tolerated {
				t.Errorf("the new node wakes the pod: %t, want %t", wakes, test.Tolerated)
			}
		})
	}
}
