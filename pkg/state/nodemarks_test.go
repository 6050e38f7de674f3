package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// markedNode returns a node with a taint and annotations of others, and with marks or without.
func markedNode(m nodemark.Marks) *corev1.Node {
	node := statetest.Node("n", "cpu", "1")
	node.Annotations = map[string]string{"example.com/other": "x", nodemark.DoNotDisrupt: "true"}
	node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	nodemark.Set(node, m)
	return node
}

// A queue of an earlier version writes facts with the marks themselves. They are no part of what decisions read, and
// the binder finds them all the same; also in what such a queue has stored, and after this version has stored it.
func TestMarksInFactsOfAnEarlierQueue(t *testing.T) {
	var h statetest.History
	h.BeginEpoch()
	h.Upsert(events.KindNode, markedNode(nodemark.Marks{Withheld: true, Kept: true}))
	h.EndEpoch()
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatal(err)
	}
	stored, _, err := store.Snapshot().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := state.Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	plain := state.NewNode(markedNode(nodemark.Marks{}))
	for name, s := range map[string]*state.Snapshot{"applied": store.Snapshot(), "restored": restored.Snapshot()} {
		for n := range s.Nodes() {
			if !n.ReadsLike(plain) {
				t.Errorf("%s: (-without marks +with):\n%s", name, cmp.Diff(plain.Object, n.Object))
			}
			if want := "kept,scale-down-disabled,withheld"; n.Marks != want {
				t.Errorf("%s: marks %q, want %q", name, n.Marks, want)
			}
		}
	}
}

// NewNode does not change the object that it gets, which others may share, and costs nothing more for a node without
// marks, which is nearly every one.
func TestMarksAreStrippedFromACopy(t *testing.T) {
	marked := markedNode(nodemark.Marks{Withheld: true, Kept: true})
	before := marked.DeepCopy()
	state.NewNode(marked)
	if d := cmp.Diff(before, marked); d != "" {
		t.Errorf("the object is changed (-before +after):\n%s", d)
	}
	plain := markedNode(nodemark.Marks{})
	if got := testing.AllocsPerRun(100, func() { nodemark.Stripped(plain) }); got != 0 {
		t.Errorf("%v allocations for a node without marks, want none", got)
	}
}
