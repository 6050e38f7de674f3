package view_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
)

// A pod that its status nominates to a node is listed as long as it counts nowhere.
func TestNominatedPodsThatCountNowhere(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	listed := func(what string, want ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(w.view.Nominated())); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	nominate := func(change func(p *corev1.Pod)) {
		w.rv++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: "p", UID: types.UID(uidOf("p")), ResourceVersion: fmt.Sprint(w.rv),
		}}
		p.Status.NominatedNodeName = "node-a"
		change(p)
		raw, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		w.fact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, Namespace: "d", Name: "p", Object: raw})
	}
	listed("no pod")
	nominate(func(*corev1.Pod) {})
	listed("nominated", uidOf("p"))
	fact, _ := w.view.Pod(uidOf("p"))
	w.view.Stage(fact, "node-b")
	listed("staged elsewhere")
	w.view.Unstage(uidOf("p"))
	listed("not staged any more", uidOf("p"))
	w.reserve("p", "node-a", fact.ResourceVersion)
	listed("reserved")
	w.view.Reset(w.store)
	listed("reserved, after a reset")
	nominate(func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
	nominate(func(p *corev1.Pod) { p.Spec.NodeName = "node-a" })
	listed("bound")
	nominate(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	listed("being deleted")
}
