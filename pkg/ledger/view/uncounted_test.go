package view_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
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

// A pod that changed before it was reserved must not be mistaken for its earlier version.
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

func (w *world) onUnknownNodes(what string, want bool) {
	w.t.Helper()
	got := w.view.HasPodsOnUnknownNodes()
	if _, elsewhere := w.view.Uncounted(); got != want || elsewhere != want {
		w.t.Errorf("%s: pods on unknown nodes: %t, uncounted elsewhere: %t, want %t", what, got, elsewhere, want)
	}
}

// late delivers a change of a node at an earlier resourceVersion.
func (w *world) late(rv uint64, f events.Fact) {
	now := w.rv
	w.rv = rv
	w.fact(f)
	w.rv = now
}

// A node was deleted and registered again before a pod was bound to it. A member that reads first of the bind, and
// then of the deletion, must not conclude that the pod has no node.
func TestPodsOnUnknownNodes(t *testing.T) {
	for _, promised := range []string{"still", "handed over"} {
		t.Run(promised, func(t *testing.T) {
			w := newWorld(t)
			w.node("node-a")
			w.rv += 2
			deleted, again := w.rv-1, w.rv
			if promised == "still" {
				w.reserve("pod-b", "node-a", w.rv)
			} else {
				w.document("node-a", map[string]uint64{ledger.KindPod: w.rv + 1})
			}
			w.pod("pod-b", "node-a", corev1.PodPending)
			w.onUnknownNodes("all is there", false)
			w.late(deleted, events.Fact{Kind: events.KindNode, Op: events.OpDelete, Name: "node-a"})
			w.onUnknownNodes("the node is gone, by facts older than a bind to it", true)
			w.pod("pod-b", "node-a", corev1.PodRunning)
			w.late(again, events.Fact{Kind: events.KindNode, Op: events.OpProgress})
			w.onUnknownNodes("they are still older", true)
			w.node("node-a")
			w.onUnknownNodes("it is there", false)
			w.dropNode("node-a")
			w.onUnknownNodes("gone since the bind", false)
			w.pod("pod-b", "node-a", corev1.PodRunning)
			w.onUnknownNodes("the pod has changed since, it was not bound again", false)
		})
	}
}

// A terminal pod does not count as one on an unknown node, nor does a pod without a promise in the ledger.
func TestPodsNotOnUnknownNodes(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.pod("pod-a", "nowhere", corev1.PodPending)
	w.onUnknownNodes("bound to a node that does not exist, without a promise", false)
	w.document("node-a", map[string]uint64{ledger.KindPod: w.rv})
	w.pod("pod-a", "node-a", corev1.PodPending)
	w.late(w.rv-1, events.Fact{Kind: events.KindNode, Op: events.OpDelete, Name: "node-a"})
	w.onUnknownNodes("bound later than all that was promised on the node", false)
	w.reserve("pod-b", "node-a", w.rv)
	w.pod("pod-b", "node-a", corev1.PodPending)
	w.onUnknownNodes("promised, and bound", true)
	w.pod("pod-b", "node-a", corev1.PodSucceeded)
	w.onUnknownNodes("ended", false)
}
