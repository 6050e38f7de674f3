package preempt_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// TestEngineNoticesBudgets checks that what is left of a budget, and which pods it covers, changes the answer
// although no node has changed; and that the protected pods do so too.
func TestEngineNoticesBudgets(t *testing.T) {
	s := newScene().cordon("a2", "b1").pod("a1", "web", 0, "2").budget("web", 1)
	s.preempt(t, 100, "1") // fills in s.in
	e := engine.New(engine.Config{})
	e.SetObjects(s.in.Objects)
	for _, n := range s.in.Nodes {
		e.SetNode(n)
	}
	profile := newProfile(t, placement.DefaultProfile("default-scheduler"))
	ask := func(step string, budgets *preempt.Budgets, want bool) {
		t.Helper()
		r := e.Preempt(profile, engine.PreemptQuery{Pod: s.in.Pod, Budgets: budgets})
		if r.Err != nil || (r.Node != nil) != want || (r.Message == "") != want {
			t.Errorf("%s: %s, want room: %t", step, planned(r), want)
		}
	}
	claims := func(n int32) *preempt.Budgets {
		return preempt.NewBudgets(s.in.Objects, func(string) int32 { return n })
	}
	ask("one is left", claims(0), true)
	ask("it is claimed", claims(1), false)
	ask("and released", claims(0), true)
	ask("there is no budget", nil, true)
	ask("it is claimed again", claims(1), false)
	ask("there is none again", nil, true)
	e.SetProtected(s.nodes["a1"], []string{"uid-web"})
	ask("the pod is protected", nil, false)
	e.SetProtected(s.nodes["a1"], nil)
	ask("and no more", nil, true)
}
