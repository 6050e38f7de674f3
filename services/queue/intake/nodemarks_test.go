package intake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// A note of marks on a node of the API server is not Berth's: facts have the marks that are on the node, by the watch
// and by a list, and also where whole objects are kept.
func TestNotesThatOthersHaveWritten(t *testing.T) {
	forged := func(m nodemark.Marks) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "10"}}
		nodemark.Set(node, m)
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[nodemark.FactAnnotation] = "kept,withheld"
		return node
	}
	ways := map[string]func(*kindStore, *corev1.Node) error{
		"watch": func(s *kindStore, n *corev1.Node) error { return s.Add(n) },
		"list":  func(s *kindStore, n *corev1.Node) error { return s.Replace([]any{n}, "10") },
	}
	check := func(way string, strip func(metav1.Object), want nodemark.Marks) {
		s, out := newStore(map[string]loggedObject{}, func(error) { t.Error("the round ended") }, nil)
		s.kind, s.strip = events.KindNode, strip
		must(t, ways[way](s, forged(want)))
		var got corev1.Node
		must(t, got.Unmarshal((<-out).Object))
		note, noted := got.Annotations[nodemark.FactAnnotation]
		if nodemark.Read(note) != want || noted != (want != nodemark.Marks{}) {
			t.Errorf("by a %s: note %q of a node with %v", way, note, want)
		}
	}
	for way := range ways {
		for _, want := range []nodemark.Marks{{}, {Withheld: true}, {Kept: true}} {
			check(way, strip.Strip, want)
			check(way, strip.KeepSpec, want)
		}
	}
}
