package preempt_test

import (
	"flag"
	"fmt"
	"maps"
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

var (
	preemptSeed = flag.Uint64("preempt.seed", 0, "seed of the first cluster; 0: TEST_SEED")
	preemptRuns = flag.Int("preempt.runs", 250, "how many clusters preemption is checked on")
)

// TestPreemptionHolds checks on random clusters that the results of Run are right: from the answer alone, and
// by trying every possibility.
func TestPreemptionHolds(t *testing.T) {
	first := seedtest.First(t, *preemptSeed)
	t.Logf("first seed %d; replay with -args -preempt.seed=%d -preempt.runs=1", first, first)
	seen := map[string]int{}
	for i := range uint64(*preemptRuns) {
		checkPreemptions(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay with -args -preempt.seed=%d -preempt.runs=1", first+i)
		}
	}
	t.Log(seen)
	for _, what := range []string{"one node", "several nodes", "kept", "in vain", "nobody could", "budgets"} {
		if *preemptRuns >= 250 && seen[what] == 0 {
			t.Errorf("the input is lopsided: none is %q", what)
		}
	}
}

// drawPreemption draws a cluster, and a profile with Berth's own options for preemption.
func drawPreemption(
	t *testing.T, g *placementtest.Generator,
) (*placementtest.Cluster, *placementtest.View, *placement.Profile) {
	t.Helper()
	g.Size = placementtest.Size{MinNodes: 2, MaxNodes: 8, MaxPodsPerNode: 6}
	cfg := g.Profile()
	cfg.PercentageOfNodesToScore = 0
	cfg.Plugins = append(cfg.Plugins, placement.PluginConfig{Name: names.DefaultPreemption})
	cfg.Preemption = placement.PreemptionConfig{KeeperChoices: 100, MaxBlockers: 4, ChargeLeaving: g.Chance(30)}
	c := g.Crowded(g.Chance(40))
	view := placementtest.NewView()
	for _, e := range c.Events() {
		view.Apply(e)
	}
	return &c, view, newProfile(t, cfg)
}

func checkPreemptions(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	g := placementtest.New(seed)
	c, view, profile := drawPreemption(t, g)
	for range 12 {
		obj := g.Preemptor(c)
		strip.Strip(obj)
		in := preempt.Input{Input: placement.Input{
			Pod: state.NewPod(obj), Nodes: view.Nodes(), Objects: view.Objects(), Seed: g.Uint64(),
		}}
		if r := profile.Evaluate(in.Input); r.Err != nil || r.FeasibleCount > 0 {
			continue
		}
		in.Budgets = preempt.NewBudgets(in.Objects, nil)
		in.Protected = map[string]bool{}
		for _, p := range c.Pods {
			if g.Chance(5) {
				in.Protected[string(p.UID)] = true
			}
		}
		r := preempt.Run(profile, in)
		x := whatIf{profile, in}
		var wrong string
		if r.Node != nil {
			wrong = x.holds(r, seen)
		} else {
			wrong = x.checkNoVictimsHelp(r, seen)
		}
		if wrong != "" {
			t.Errorf("pod %s: %s", obj.Name, wrong)
		}
	}
}

// whatIf evaluates clusters in which pods are gone.
type whatIf struct {
	profile *placement.Profile
	in      preempt.Input
}

// fits reports whether the pod fits on a node without the pods with these UIDs.
func (x whatIf) fits(n *state.NodeInfo, gone map[string]bool) bool {
	in := x.in.Input
	in.Nodes = nil
	for _, old := range x.in.Nodes {
		without := old.Clone()
		for uid := range gone {
			without.RemovePod(uid)
		}
		in.Nodes = append(in.Nodes, without)
		if old == n {
			in.Candidates = []*state.NodeInfo{without}
		}
	}
	return x.profile.Evaluate(in).FeasibleCount == 1
}

// holds checks a plan.
func (x whatIf) holds(r preempt.Result, seen map[string]int) string {
	gone, where := map[string]bool{}, map[*state.NodeInfo]bool{r.Node: true}
	for _, v := range r.Victims {
		gone[v.Pod.UID], where[v.Node] = true, true
		switch {
		case v.Pod.Priority >= x.in.Pod.Priority:
			return fmt.Sprintf("victim %s is as important", v.Pod.Key())
		case x.in.Protected[v.Pod.UID]:
			return fmt.Sprintf("victim %s is protected", v.Pod.Key())
		case len(v.Budgets) > 1:
			return fmt.Sprintf("victim %s has %d budgets: nobody can evict it", v.Pod.Key(), len(v.Budgets))
		}
	}
	if len(where) > 1 {
		seen["several nodes"]++
	} else {
		seen["one node"]++
	}
	if !x.fits(r.Node, gone) {
		return "the pod does not fit when the victims are gone"
	}
	for _, test := range []struct {
		gone map[string]bool
		want bool
	}{{nil, false}, {gone, true}} {
		fits, no, err := x.profile.FitsWithout(x.in.Input, r.Node, test.gone)
		if fits != test.want || err != nil || len(no.Reasons) > 0 == fits {
			return fmt.Sprintf("without %v: fits %t, %+v, %v, want %t", test.gone, fits, no, err, test.want)
		}
	}
	for uid := range gone {
		delete(gone, uid)
		if x.fits(r.Node, gone) {
			return fmt.Sprintf("victim %s need not go", uid)
		}
		gone[uid] = true
	}
	for _, use := range r.Budgets {
		seen["budgets"]++
		if use.Disruptions > use.Budget.Left {
			return fmt.Sprintf("budget %s has %d left, %d are taken", use.Budget.Name, use.Budget.Left, use.Disruptions)
		}
	}
	for _, k := range r.Keepers {
		if gone[k.Pod.UID] {
			return fmt.Sprintf("keeper %s is a victim", k.Pod.Key())
		}
		if k.Pod.Priority < x.in.Pod.Priority && k.Node == r.Node {
			seen["kept"]++
		}
	}
	return ""
}

// checkNoVictimsHelp checks that no set of victims on one node would have been enough: all sets are tried. Budgets are
// left out, as the search among those is not complete.
func (x whatIf) checkNoVictimsHelp(r preempt.Result, seen map[string]int) string {
	if r.KeepNomination || r.Err != nil {
		return ""
	}
	seen["in vain"]++
	x.in.Budgets = nil
	if again := preempt.Run(x.profile, x.in); again.Node != nil {
		return "" // budgets are the reason
	}
	seen["nobody could"]++
	for _, n := range x.in.Nodes {
		var mayGo []string
		for p := range n.Pods() {
			if p.Priority < x.in.Pod.Priority && !x.in.Protected[p.UID] {
				mayGo = append(mayGo, p.UID)
			}
		}
		for set := range 1 << len(mayGo) {
			gone := map[string]bool{}
			for i, uid := range mayGo {
				gone[uid] = set>>i&1 == 1
			}
			maps.DeleteFunc(gone, func(_ string, removed bool) bool { return !removed })
			if x.fits(n, gone) {
				return fmt.Sprintf("the pod would fit on %s without %v; said %q", n.Node.Name, gone, r.Message)
			}
		}
	}
	return ""
}
