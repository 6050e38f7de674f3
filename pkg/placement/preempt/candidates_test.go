package preempt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// asked returns a profile and the input for a pod of priority 100 that requests this much cpu.
func (s *scene) asked(
	t *testing.T, cpu string, cfg placement.ProfileConfig,
) (*placement.Profile, preempt.Input) {
	t.Helper()
	p := statetest.Pod("default", "new", "cpu", cpu)
	important := int32(100)
	p.Spec.Priority = &important
	view := placementtest.NewView()
	for _, e := range s.objects.Events() {
		view.Apply(e)
	}
	in := s.in
	in.Pod, in.Nodes, in.Objects = state.NewPod(p), inOrder(s.nodes), view.Objects()
	in.Budgets = preempt.NewBudgets(view.Objects(), nil)
	return newProfile(t, cfg), in
}

func candidatesNamed(list []preempt.Candidate) (out []string) {
	for _, c := range list {
		text := c.Node.Name + ":"
		for _, v := range c.Victims {
			text += " " + v.Name
		}
		text += " of"
		for _, p := range c.Pods {
			text += " " + p.Name
		}
		out = append(out, text)
	}
	return out
}

func crowded() *scene {
	return newScene().pod("a1", "small", 1, "1").pod("a1", "tiny", 0, "1").pod("a2", "big", 5, "2").
		pod("b1", "huge", 1000, "2")
}

// Candidates are all nodes on which room can be made. Nodes that extenders reject are not, whether or not the rules
// let the pod pass there.
func TestPreemptCandidates(t *testing.T) {
	free := func() *scene { return newScene().cordon("a1").pod("a2", "other", 0, "1").pod("b1", "huge", 1000, "2") }
	never, no := placement.Opinion{Rejected: true, Unresolvable: true}, placement.Opinion{Rejected: true}
	for name, c := range map[string]struct {
		scene    *scene
		opinions map[string]placement.Opinion
		want     []string
		message  string
	}{
		"all":      {scene: crowded(), want: []string{"a1: tiny of small tiny", "a2: big of big"}},
		"hopeless": {scene: crowded(), opinions: map[string]placement.Opinion{"a1": never}, want: []string{"a2: big of big"}},
		"an extender alone": {
			scene: free(), opinions: map[string]placement.Opinion{"a2": no},
			message: "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, " +
				"2 Preemption is not helpful for scheduling.",
		},
		"an extender alone, for ever": {
			scene: free(), opinions: map[string]placement.Opinion{"a2": never},
			message: "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, " +
				"2 Preemption is not helpful for scheduling.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			profile, in := c.scene.asked(t, "1", placement.DefaultProfile("s"))
			in.Opinions = c.opinions
			list, no := preempt.Candidates(profile, in)
			if diff := cmp.Diff(c.want, candidatesNamed(list)); diff != "" || no.Message != c.message || no.Err != nil {
				t.Errorf("%q, %v; want %q; candidates (-want +got):\n%s", no.Message, no.Err, c.message, diff)
			}
		})
	}
}

// The search ends with as many candidates as the profile wants, and starts at another node with another seed.
func TestPreemptCandidatesAreLimited(t *testing.T) {
	cfg := placement.DefaultProfile("s")
	for i := range cfg.Plugins {
		if cfg.Plugins[i].Name == names.DefaultPreemption {
			cfg.Plugins[i].Args = preemptionArgs(1, 1)
		}
	}
	first := map[string]bool{}
	for seed := range uint64(6) {
		profile, in := crowded().asked(t, "1", cfg)
		in.Seed = seed
		list, _ := preempt.Candidates(profile, in)
		if len(list) != 1 {
			t.Fatalf("seed %d: candidates %q, want one", seed, candidatesNamed(list))
		}
		first[list[0].Node.Name] = true
	}
	if !first["a1"] || !first["a2"] {
		t.Errorf("only %v of a1 and a2 with 6 seeds", first)
	}
}

// Restricted to candidates, preemption uses only these and their victims, if they are enough.
func TestPreemptAmong(t *testing.T) {
	const refused = "preemption: no candidate node for preemption: on 1 node(s), those whom extenders have go are not " +
		"enough, or may not go."
	type candidates = []preempt.Candidate
	all := func(l candidates) candidates {
		l[0].Victims = l[0].Pods
		return l[:1]
	}
	for name, c := range map[string]struct {
		edit  func(list candidates) candidates
		scene *scene
		cpu   string
		want  string
	}{
		"all":        {want: "a1: tiny"},
		"one":        {edit: func(l candidates) candidates { return l[1:] }, want: "a2: big"},
		"doubted":    {edit: func(l candidates) candidates { l[0].Doubted = true; return l }, want: "a2: big"},
		"violations": {edit: func(l candidates) candidates { l[0].Violations = 1; return l }, want: "a2: big"},
		"others":     {edit: all, want: "a1: small tiny"},
		"too few": {cpu: "2", edit: func(l candidates) candidates {
			l[0].Victims = l[0].Victims[:1]
			return l[:1]
		}, want: refused},
		"gone": {edit: func(l candidates) candidates {
			l[0].Victims = l[1].Victims
			return l[:1]
		}, want: refused},
		"budget": {scene: crowded().budget("small", 0), edit: all, want: refused},
		"none":   {edit: func(candidates) candidates { return nil }, want: "preemption: no candidate node for preemption"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.scene == nil {
				c.scene = crowded()
			}
			if c.cpu == "" {
				c.cpu = "1"
			}
			profile, in := c.scene.asked(t, c.cpu, placement.DefaultProfile("s"))
			list, no := preempt.Candidates(profile, in)
			if len(list) == 0 {
				t.Fatalf("no candidates: %+v", no)
			}
			if c.edit != nil {
				list = c.edit(list)
			}
			if got := planned(preempt.Among(profile, in, list)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// onItsNode describes a failed preemption without victims on other nodes: candidates have none.
func onItsNode(r preempt.Result) string {
	r.Advice = slices.DeleteFunc(slices.Clone(r.Advice), func(text string) bool {
		return strings.Contains(text, "preemption.crossNode")
	})
	return planned(r)
}

// With all candidates, the answer is that of Run, unless pods on other nodes have to be evicted.
func TestPreemptAmongAll(t *testing.T) {
	first := seedtest.First(t, *preemptSeed)
	t.Logf("first seed %d; replay with -args -preempt.seed=%d -preempt.runs=1", first, first)
	same := 0
	for i := range uint64(*preemptRuns) {
		g := placementtest.New(first + i)
		c, view, profile := drawPreemption(t, g)
		for range 6 {
			obj := g.Preemptor(c)
			strip.Strip(obj)
			in := preempt.Input{Input: placement.Input{
				Pod: state.NewPod(obj), Nodes: view.Nodes(), Objects: view.Objects(), Seed: g.Uint64(),
			}}
			if r := profile.Evaluate(in.Input); r.Err != nil || r.FeasibleCount > 0 {
				continue
			}
			in.Budgets = preempt.NewBudgets(in.Objects, nil)
			want := preempt.Run(profile, in)
			list, no := preempt.Candidates(profile, in)
			got := preempt.Among(profile, in, list)
			switch {
			case len(list) > 0 && planned(got) == planned(want) && got.Cost == want.Cost:
				same++
			case len(list) > 0:
				t.Fatalf("seed %d, pod %s: %s among all candidates, want %s", first+i, obj.Name, planned(got), planned(want))
			case want.Node == nil && planned(no) != onItsNode(want):
				t.Fatalf("seed %d, pod %s: %s without candidates, want %s", first+i, obj.Name, planned(no), onItsNode(want))
			case want.Node != nil && !strings.Contains(planned(want), "@"):
				t.Fatalf("seed %d, pod %s: no candidates, want %s", first+i, obj.Name, planned(want))
			}
		}
	}
	if *preemptRuns >= 250 && same < 50 {
		t.Errorf("the input is lopsided: %d of %d runs", same, *preemptRuns)
	}
}
