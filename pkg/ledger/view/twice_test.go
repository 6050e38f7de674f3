package view_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Two documents that reserve for one pod both count its room, until a fact shows where it is.
func TestEveryReservationCountsOnItsNode(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.node("node-b")
	w.pod("pod-a", "", corev1.PodPending)
	check := func(what string, a, b []string) {
		t.Helper()
		w.wantAsked(what+", node-a", w.have()["node-a"], a...)
		w.wantAsked(what+", node-b", w.have()["node-b"], b...)
		w.checkFollower()
		_, pods, reserved := w.view.Sizes()
		if want := min(1, len(a)+len(b)); pods != want {
			t.Errorf("%s: %d pods count, want %d", what, pods, want)
		}
		if reserved < 0 {
			t.Errorf("%s: %d pods are only reserved", what, reserved)
		}
	}
	both := []string{"pod-a"}
	w.promise("node-a", nil, entry("pod-a", w.rv))
	w.promise("node-b", nil, entry("pod-a", w.rv))
	check("two reservations", both, both)
	fencing := entry("pod-a", w.rv)
	fencing.State = ledger.Fencing
	w.promise("node-a", nil, fencing)
	check("the first is fenced", both, both)
	w.promise("node-a", nil)
	check("the first has left", nil, both)
	w.promise("node-a", nil, entry("pod-a", w.rv))
	w.promise("node-b", nil)
	check("the other has left", both, nil)
	w.promise("node-b", nil, entry("pod-a", w.rv))
	w.view.Reset(w.store)
	check("after a new start", both, both)
	w.pod("pod-a", "node-b", corev1.PodRunning)
	check("bound", nil, both)
	w.dropPod("pod-a")
	check("gone", nil, nil)
}
