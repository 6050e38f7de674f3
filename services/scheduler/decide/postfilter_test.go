package decide_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// newFilteringWorld returns a world with a plugin that is asked about pods that fit nowhere, and that rejects the
// nodes that it is asked about.
func newFilteringWorld(t *testing.T, seed uint64, guidance *placement.Guidance) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	at := []placement.CustomPlugin{{Name: "Helper", Weight: 1}}
	cfg.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtFilter: at, placement.AtPostFilter: at,
	}}
	if guidance != nil {
		cfg.Custom.Points[placement.AtPreFilter] = at
	}
	w := newWorldWith(t, seed, 1, cfg, func(c *decide.Config) {
		c.PostFilters = map[string]bool{corev1.DefaultSchedulerName: true}
	})
	w.advise = func(q step.Consult) step.Advice {
		a := opinions(func(string) placement.Opinion {
			return placement.Opinion{Rejected: true, Unresolvable: true, Plugin: "Helper", Reasons: []string{"not there"}}
		})(q)
		a.Guidance = guidance
		return a
	}
	return w
}

// Plugins are asked about a pod that fits nowhere, with the verdicts on all nodes, also if the rules pass no node
// and no other plugin is asked; the verdict contains their message.
func TestPostFilter(t *testing.T) {
	rejected := &placement.Guidance{Plugin: "Helper", Rejection: "not today", Resolvable: true}
	for _, test := range []struct {
		name     string
		nodes    []string
		guidance *placement.Guidance
		want     []step.Verdict
		message  string
	}{
		{"by rules and plugins", []string{"full", "a"}, nil, []step.Verdict{
			{Node: "a", Plugin: "Helper", Reasons: []string{"not there"}},
			{Node: "full", Plugin: names.NodeResourcesFit, Reasons: []string{"Insufficient cpu"}},
		}, "0/2 nodes are available: 1 Insufficient cpu, 1 not there. helped"},
		{"by rules alone", []string{"full"}, nil, []step.Verdict{
			{Node: "full", Plugin: names.NodeResourcesFit, Reasons: []string{"Insufficient cpu"}},
		}, "0/1 nodes are available: 1 Insufficient cpu. helped"},
		{"by a plugin everywhere", []string{"a"}, rejected, []step.Verdict{
			{Node: "a", Plugin: "Helper", Reasons: []string{"not today"}, Resolvable: true},
		}, "0/1 nodes are available: not today. helped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFilteringWorld(t, 1, test.guidance)
			asked := 0
			w.perform = func(p step.PluginRequest) step.PluginResult {
				asked++
				sorted := cmpopts.SortSlices(func(a, b step.Verdict) bool { return a.Node < b.Node })
				if diff := cmp.Diff(test.want, p.Verdicts, sorted); diff != "" {
					t.Errorf("verdicts (-want +got):\n%s", diff)
				}
				return step.PluginResult{ID: p.ID, Act: p.Act, Nominated: "a", Message: "helped"}
			}
			for _, node := range test.nodes {
				w.addNode(node, map[string]int64{"a": 10}[node])
			}
			w.addPod("p")
			w.settle()
			w.offer()
			w.settle()
			d := w.only()
			if d.Kind != events.DecisionUnplaceable || d.Message != test.message || d.NodeName != "a" || asked != 1 {
				t.Errorf("asked %d times: %s %q, nominated %q; want %q and a", asked, d.Kind, d.Message, d.NodeName, test.message)
			}
		})
	}
}

// No other question is sent before plugins have answered about a pod that fits nowhere, and a draining shard gives
// such a pod back.
func TestPostFilterBelongsToItsCycle(t *testing.T) {
	w := newFilteringWorld(t, 1, nil)
	w.addNode("a", 10)
	w.addPod("p")
	w.addPod("q")
	w.settle()
	w.offer()
	s := w.shards[0]
	for range 300 {
		if len(s.performs) == 0 {
			w.deliver()
			continue
		}
		w.heartbeat()
		if len(s.consults) > 0 {
			t.Fatal("another question before the answer")
		}
	}
	if len(s.performs) != 1 || s.performs[0].Act != step.ActPostFilter {
		t.Fatalf("%+v, want one question about a pod that fits nowhere", s.performs)
	}
	out, err := checked(s.core.Step(step.Input{Drain: true, Beat: true}, w.now))
	if err != nil {
		t.Fatal(err)
	}
	if !out.Idle || len(out.Request.Return) != 2 {
		t.Errorf("idle %v, %d given back, want both pods", out.Idle, len(out.Request.Return))
	}
}
