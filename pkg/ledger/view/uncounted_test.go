package view_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// document stores a node's document without entries.
func (w *world) document(node string, hw map[string]uint64) {
	w.t.Helper()
	w.revision++
	events := w.stored(ledger.NodeDoc{NodeUID: uidOf(node), NodeName: node, HW: hw})
	if _, err := w.ledger.Apply(ledger.EventBatch{Revision: w.revision, Events: events}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) uncounted(what string, elsewhere bool, want ...string) {
	w.t.Helper()
	nodes, other := w.view.Uncounted()
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node.Name)
	}
	if other != elsewhere || len(names) != len(want) || len(want) > 0 && names[0] != want[0] {
		w.t.Errorf("%s: %v are uncounted, elsewhere %v; want %v, %v", what, names, other, want, elsewhere)
	}
}

func TestUncountedUntilTheFactsAreThere(t *testing.T) {
	w := newWorld(t)
	w.uncounted("before any fact", true)
	w.node("node-a")
	w.node("node-b")
	w.pod("pod-a", "", corev1.PodPending)
	w.uncounted("with all facts", false)

	w.document("node-a", map[string]uint64{ledger.KindPod: w.rv + 1})
	w.uncounted("handed over ahead of the facts", false, "node-a")
	w.pod("pod-a", "node-a", corev1.PodRunning)
	w.uncounted("the bind shows", false)

	w.document("node-b", map[string]uint64{ledger.KindNode: w.rv + 1})
	w.uncounted("decided on a newer node", false, "node-b")
	w.node("node-b")
	w.uncounted("the newer node shows", false)

	w.document("node-c", map[string]uint64{ledger.KindNode: w.rv + 1})
	w.uncounted("pods on a node nobody knows", true)
	w.node("node-c")
	w.uncounted("the node shows", false)
	w.dropNode("node-c")
	w.uncounted("the node is gone for good", false)

	w.reserve("pod-b", "node-a", w.rv+1)
	w.uncounted("a reserved pod is not described", false, "node-a")
	w.pod("pod-b", "", corev1.PodPending)
	w.uncounted("it is", false)
}

// A pod that changed before it was reserved must not be taken for what it was.
func TestOlderVersionOfAReservedPodDescribesNothing(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.pod("pod-a", "", corev1.PodPending)
	w.reserve("pod-a", "node-a", w.rv+1)
	if n := w.view.Nodes()[0]; n.UndescribedPods() != 1 || n.PodCount() != 1 {
		t.Errorf("%d of %d pods undescribed, want 1 of 1", n.UndescribedPods(), n.PodCount())
	}
	w.view.Reset(w.store)
	w.uncounted("after a new start", false, "node-a")
	w.pod("pod-a", "", corev1.PodPending)
	if n := w.view.Nodes()[0]; n.UndescribedPods() != 0 || n.PodCount() != 1 {
		t.Errorf("%d of %d pods undescribed with the newer version, want 0 of 1", n.UndescribedPods(), n.PodCount())
	}
}
