package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A pod that its status nominates to a node is listed as long as it counts nowhere.
func TestNominatedPodsThatCountNowhere(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	listed := func(what string, want ...string) {
		t.Helper()
		var got []string
		for node, pods := range w.view.Nominated() {
			if len(pods) == 0 {
				t.Errorf("%s: an empty list for %s", what, node)
			}
			for _, p := range pods {
				if got = append(got, p.UID); p.Status().NominatedNodeName != node {
					t.Errorf("%s: %s is listed for %s, and nominated to %s", what, p.UID, node, p.Status().NominatedNodeName)
				}
			}
			if !slices.IsSortedFunc(pods, func(a, b *state.Pod) int { return strings.Compare(a.UID, b.UID) }) {
				t.Errorf("%s: the list for %s is not sorted", what, node)
			}
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	nominateAs := func(name string, change func(p *corev1.Pod)) {
		w.rv++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID(uidOf(name)), ResourceVersion: fmt.Sprint(w.rv),
		}}
		p.Status.NominatedNodeName = "node-a"
		change(p)
		raw, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		w.fact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, Namespace: "d", Name: name, Object: raw})
	}
	nominate := func(change func(p *corev1.Pod)) { nominateAs("p", change) }
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
	nominateAs("r", func(*corev1.Pod) {})
	nominateAs("q", func(*corev1.Pod) {})
	nominateAs("s", func(*corev1.Pod) {})
	listed("several on one node", uidOf("q"), uidOf("r"), uidOf("s"))
	nominateAs("r", func(p *corev1.Pod) { p.Status.NominatedNodeName = "node-b" })
	listed("one of them on another node", uidOf("q"), uidOf("r"), uidOf("s"))
	for _, name := range []string{"q", "r", "s"} {
		nominateAs(name, func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
	}
	listed("nominated no more")
	nominate(func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
	nominate(func(p *corev1.Pod) { p.Spec.NodeName = "node-a" })
	listed("bound")
	nominate(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	listed("being deleted")
}
