package engine_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

var preemptRuns = flag.Int("preempt.runs", 250, "how many clusters preemption is checked on")

// preemptAnswer is a preempt.Result as values that can be compared and printed.
type preemptAnswer struct {
	Failed, Waiting, Keep    bool
	Node, Message            string
	Victims, Keepers, Advice []string
	Budgets                  []string
	Cost                     preempt.Cost
	Examined, Found          int
}

func preemptAnswerOf(r preempt.Result) preemptAnswer {
	if r.Err != nil {
		return preemptAnswer{Failed: true}
	}
	a := preemptAnswer{
		Waiting: r.Waiting, Keep: r.KeepNomination, Message: r.Message, Advice: r.Advice, Cost: r.Cost,
		Examined: r.Examined, Found: r.Found,
	}
	if r.Node != nil {
		a.Node = r.Node.Node.Name
	}
	for _, v := range r.Victims {
		a.Victims = append(a.Victims, fmt.Sprint(v.Pod.Key(), " ", v.Node.Node.Name, v.Leaving, v.Reserved, len(v.Budgets)))
	}
	for _, k := range r.Keepers {
		a.Keepers = append(a.Keepers, k.Pod.Key()+" "+k.Node.Node.Name)
	}
	for _, b := range r.Budgets {
		a.Budgets = append(a.Budgets, fmt.Sprint(b.Budget.Name, " ", b.Disruptions))
	}
	return a
}

// TestEnginePreemptsAsTwin checks that after any history the engine preempts as an evaluation from scratch does.
func TestEnginePreemptsAsTwin(t *testing.T) {
	first := seedtest.First(t, *twinSeed)
	t.Logf("first seed %d; replay with -args -twin.seed=%d -preempt.runs=1", first, first)
	outcomes := map[string]int{}
	for i := range uint64(*preemptRuns) {
		newPreemptHistory(t, first+i).run(t, outcomes)
		if t.Failed() {
			t.Fatalf("replay with -args -twin.seed=%d -preempt.runs=1", first+i)
		}
	}
	t.Log(outcomes)
	for _, what := range []string{"plan", "in vain", "fits", "budgets", "nothing moved", "spread"} {
		if *preemptRuns >= 250 && outcomes[what] < 20 {
			t.Errorf("the input is lopsided: %d times %q", outcomes[what], what)
		}
	}
}

// preemptHistory is a cluster in which pods need places and things change.
type preemptHistory struct {
	*placementtest.Generator
	cluster   placementtest.Cluster
	engine    *engine.Engine
	view      *placementtest.View
	profile   *placement.Profile
	budgets   *preempt.Budgets
	protected map[*state.NodeInfo][]string
	asked     []*corev1.Pod
}

func newPreemptHistory(t *testing.T, seed uint64) *preemptHistory {
	t.Helper()
	g := placementtest.New(seed)
	g.Size = placementtest.Size{MinNodes: 2, MaxNodes: 15, MaxPodsPerNode: 6}
	cfg := g.Profile()
	cfg.PercentageOfNodesToScore = 0
	plugin := placement.PluginConfig{Name: names.DefaultPreemption}
	if g.Chance(10) {
		plugin.Args = &configv1.DefaultPreemptionArgs{
			MinCandidateNodesPercentage: ptr.To[int32](50), MinCandidateNodesAbsolute: ptr.To[int32](1),
		}
	}
	cfg.Plugins = append(cfg.Plugins, plugin)
	cfg.Preemption = placement.PreemptionConfig{
		PDB: placementtest.Pick(g, "", placement.PDBBestEffort), ChargeLeaving: g.Chance(50), SameNodeOnly: g.Chance(20),
	}
	h := &preemptHistory{
		Generator: g,
		engine:    engine.New(engine.Config{CacheBytes: placementtest.Pick[int64](g, 0, 60_000)}),
		profile:   newProfile(t, cfg), protected: map[*state.NodeInfo][]string{},
	}
	h.view = placementtest.NewView(h.engine)
	h.cluster = g.Crowded(g.Chance(40))
	for _, e := range h.cluster.Events() {
		h.view.Apply(e)
	}
	h.count()
	return h
}

func (h *preemptHistory) count() { h.budgets = preempt.NewBudgets(h.view.Objects(), h.claimed) }

// claimed returns a random share of a budget.
func (h *preemptHistory) claimed(string) int32 { return int32(h.IntN(2)) }

func (h *preemptHistory) run(t *testing.T, outcomes map[string]int) {
	t.Helper()
	for range 40 {
		moved := h.change()
		pod := h.preemptor()
		usable := h.mark()
		seed := h.Uint64()
		in := preempt.Input{
			Input: placement.Input{
				Pod: pod, Nodes: h.view.Nodes(), Candidates: usable, Objects: h.view.Objects(), Seed: seed,
			},
			Budgets: h.budgets, Protected: map[string]bool{},
		}
		for _, list := range h.protected {
			for _, uid := range list {
				in.Protected[uid] = true
			}
		}
		want := preemptAnswerOf(preempt.Run(h.profile, in))
		got := preemptAnswerOf(h.engine.Preempt(h.profile, engine.PreemptQuery{Pod: pod, Seed: seed, Budgets: h.budgets}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod %s: from scratch (-) and engine (+) differ:\n%s", pod.Name, diff)
			return
		}
		switch {
		case want.Failed:
			outcomes["fits"]++
		case want.Node != "" && isSpread(pod):
			outcomes["spread"]++
		case want.Node != "":
			outcomes["plan"]++
		default:
			outcomes["in vain"]++
		}
		if len(want.Budgets) > 0 {
			outcomes["budgets"]++
		}
		if !moved {
			outcomes["nothing moved"]++
		}
	}
}

// change makes random changes, or none.
func (h *preemptHistory) change() (moved bool) {
	for h.Chance(50) {
		moved = true
		switch {
		case h.Chance(20):
			e := placementtest.Event{What: "budget", Kind: events.KindDisruptionBudget, New: h.Budget(&h.cluster)}
			if old := h.cluster.Others[events.KindDisruptionBudget]; len(old) > 0 && h.Chance(70) {
				e = placementtest.Event{What: "budget", Kind: events.KindDisruptionBudget, Old: old[0]}
			}
			h.view.Apply(h.cluster.Apply(e))
			h.count()
		case h.Chance(20):
			h.count()
		case h.Chance(20):
			h.protect()
		case h.Chance(30) && len(h.view.Nodes()) > 0:
			touchPod(h.Rand, h.engine, placementtest.Pick(h.Generator, h.view.Nodes()...))
		default:
			h.view.Apply(h.cluster.Apply(h.Event(&h.cluster)))
			h.dropRemoved()
		}
	}
	return moved
}

// protect changes which pods of a node may be victims.
func (h *preemptHistory) protect() {
	if len(h.view.Nodes()) == 0 {
		return
	}
	n := placementtest.Pick(h.Generator, h.view.Nodes()...)
	var uids []string
	for p := range n.Pods() {
		if h.Chance(40) {
			uids = append(uids, p.UID)
		}
	}
	h.protected[n] = uids
	h.engine.SetProtected(n, uids)
}

// dropRemoved drops the data of removed nodes.
func (h *preemptHistory) dropRemoved() {
	for n := range h.protected {
		if n.Node == nil {
			delete(h.protected, n)
		}
	}
}

// isSpread reports whether hard spread is the only rule of a pod about other pods.
func isSpread(p *state.Pod) bool {
	a := p.Template.Spec.Affinity
	return (a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil) &&
		slices.ContainsFunc(p.Template.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule
		})
}

// preemptor returns a new pod, or one like an earlier one. Most have no rules about other pods, or only spread.
func (h *preemptHistory) preemptor() *state.Pod {
	if len(h.asked) == 0 || h.Chance(50) {
		p := h.Preemptor(&h.cluster)
		if h.Chance(50) {
			p.Spec.TopologySpreadConstraints = nil
		}
		if h.Chance(85) {
			if p.Spec.Affinity != nil {
				p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity = nil, nil
			}
		}
		h.asked = append(h.asked, p)
	}
	p := placementtest.Pick(h.Generator, h.asked...).DeepCopy()
	p.Name = fmt.Sprint(p.Name, "-", h.IntN(1000))
	p.UID = types.UID("uid-" + p.Name)
	if h.Chance(20) {
		priority := placementtest.Pick[int32](h.Generator, 0, 5, 10, 1000)
		p.Spec.Priority = &priority
	}
	strip.Strip(p)
	return state.NewPod(p)
}

// mark mostly leaves all nodes usable.
func (h *preemptHistory) mark() []*state.NodeInfo {
	few := h.Chance(20)
	usable := []*state.NodeInfo{}
	for i, n := range h.view.Nodes() {
		ok := !few || i%4 != 0
		h.engine.SetUsable(n, ok)
		if ok {
			usable = append(usable, n)
		}
	}
	return usable
}
