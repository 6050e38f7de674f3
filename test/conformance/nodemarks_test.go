package conformance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// TestMarksAreForOthers: upstream's filters, with which Cluster Autoscaler simulates, find no room on a node that is
// marked as withheld, and ours do, on the facts about the same node. A mark that keeps a node changes neither answer.
func TestMarksAreForOthers(t *testing.T) {
	prepareUpstream()
	for marks, open := range map[nodemark.Marks]bool{
		{}:                           true,
		{Kept: true}:                 true,
		{Withheld: true}:             false,
		{Withheld: true, Kept: true}: false,
	} {
		t.Run(marks.String(), func(t *testing.T) {
			both := mustSides(t.Context(), t, singlePluginProfile(names.TaintToleration))
			for _, e := range zoned().Events() {
				shown := e
				if n, is := e.New.(*corev1.Node); is && n.Name == "one" {
					marked, fact := n.DeepCopy(), n.DeepCopy()
					nodemark.Set(marked, marks)
					nodemark.Set(fact, marks)
					strip.Strip(fact)
					e.New, shown.New = marked, fact
				}
				if err := both.upstream.apply(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				both.view.Apply(shown)
			}
			pod := labelled("default", "new", "web", "")
			want := ""
			if !open {
				want = names.TaintToleration
			}
			if got := both.upstream.decide(t.Context(), pod).Nodes["one"].Plugin; got != want {
				t.Errorf("upstream: rejected by %q, want %q", got, want)
			}
			if got := both.ours(pod).Nodes["one"]; got.Plugin != "" || got.Code == "" {
				t.Errorf("ours: %+v", got)
			}
		})
	}
}
