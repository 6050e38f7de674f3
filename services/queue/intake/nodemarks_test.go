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
	for name, strip := range map[string]func(metav1.Object){"stripped": strip.Strip, "whole": strip.KeepSpec} {
		for _, want := range []nodemark.Marks{{}, {Withheld: true}, {Kept: true}} {
			for source, hand := range map[string]func(*kindStore) error{
				"watch": func(s *kindStore) error { return s.Add(forged(want)) },
				"list":  func(s *kindStore) error { return s.Replace([]any{forged(want)}, "10") },
			} {
				s, out := newStore(map[string]loggedObject{}, func(error) { t.Error("the round ended") }, nil)
				s.kind, s.strip = events.KindNode, strip
				must(t, hand(s))
				var got corev1.Node
				must(t, got.Unmarshal((<-out).Object))
				note, noted := got.Annotations[nodemark.FactAnnotation]
				if nodemark.Read(note) != want || noted != (want != nodemark.Marks{}) {
					t.Errorf("%s, by a %s: note %q of a node with %v", name, source, note, want)
				}
			}
		}
	}
}
