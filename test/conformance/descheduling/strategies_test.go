package descheduling

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

var (
	cases = flag.Int("cases", 2000, "how many clusters, and how many policies, to compare")
	seed  = flag.Uint64("seed", 0, "seed of the first case; 0: TEST_SEED")
)

func firstSeed(t *testing.T) uint64 {
	t.Helper()
	first := seedtest.First(t, *seed)
	t.Logf("first seed %d; replay with -args -seed=%d -cases=%d", first, first, *cases)
	return first
}

const (
	// leastEvicting is the share of cases, in percent, in which each strategy must evict.
	leastEvicting = 20
	// mostChance is the share of a strategy's cases, in percent, in which ours may be another answer of
	// upstream's than the one it gave. (Measured over 22,000 cases: 3.5 of topology spread, 1.8 of duplicates,
	// 1.4 of low utilization, less of the others.)
	mostChance = 15
	// mostExcepted is that of cases in which ours may be none of upstream's answers, but equals one if a pod whose
	// eviction is requested twice counts once. (Measured: 0.14 of node affinity, none of the others.)
	mostExcepted = 3
	// manyCases is how many a run must have for its shares to mean something, enoughCases how many so that none
	// strays by a quarter: 1,000 of each strategy.
	manyCases, enoughCases = 2000, 10_000
)

// row of the table that a run prints.
type row struct {
	cases, evicting, evicted int
	// chance counts cases in which ours is another answer that upstream's algorithm allows.
	chance int
	// excepted counts cases in which ours counts a pod once that upstream counts twice.
	excepted int
}

// TestStrategies: on the same cluster and policy, both evict the same pods, or ours are others that
// upstream's algorithm allows.
func TestStrategies(t *testing.T) {
	o, first := newOracle(t), firstSeed(t)
	table := map[string]*row{}
	strategies := slices.Sorted(maps.Keys(drawers))
	for _, name := range strategies {
		table[name] = &row{}
	}
	for i := range uint64(*cases) {
		at := first + i
		name := strategies[at%uint64(len(strategies))]
		if diff := o.compare(t, at, name, table[name]); diff != "" {
			t.Fatalf("seed %d, %s: %s\nreplay with -args -seed=%d -cases=1", at, name, diff, at)
		}
	}
	t.Log(draw(table))
	if *cases < manyCases {
		return
	}
	for _, name := range strategies {
		r := table[name]
		for _, complaint := range r.complaints() {
			t.Errorf("%s %s", name, complaint)
		}
		if r.idle() {
			seedtest.Lacks(t, *seed, *cases >= enoughCases, "%s evicted in %d of %d cases, want %d%% at least",
				name, r.evicting, r.cases, leastEvicting)
		}
	}
}

// idle reports whether too few cases evict anything.
func (r *row) idle() bool { return r.evicting*100 < leastEvicting*r.cases }

// complaints are about shares of cases that are explained otherwise than by the same answer.
func (r *row) complaints() (all []string) {
	if r.chance*100 > mostChance*r.cases {
		all = append(all, fmt.Sprintf("gave another of upstream's answers in %d of %d cases, want %d%% at most",
			r.chance, r.cases, mostChance))
	}
	if r.excepted*100 > mostExcepted*r.cases {
		all = append(all, fmt.Sprintf("counted pods otherwise in %d of %d cases, want %d%% at most",
			r.excepted, r.cases, mostExcepted))
	}
	return all
}

// drawCase draws a cluster and a policy.
func drawCase(seed uint64, strategy string) drawnCase {
	s := newSource(seed)
	w := drawWorld(s, strategy)
	return drawnCase{strategy: strategy, w: w, drawn: drawPolicy(s, strategy)}
}

// compare returns how the sides differ, or nothing.
func (o *oracle) compare(t *testing.T, seed uint64, strategy string, r *row) string {
	t.Helper()
	c := drawCase(seed, strategy)
	theirs := o.ask(t, c.w, c.drawn)
	ours, err := c.w.decide(text(c.drawn))
	if err != nil {
		return fmt.Sprintf("ours: %v\n%s", err, text(c.drawn))
	}
	r.cases++
	if len(ours.evicted) > 0 {
		r.evicting++
		r.evicted += len(ours.evicted)
	}
	why := ""
	if !theirs.failed {
		why = o.denies(t, c, theirs, false)
	}
	switch {
	case why != "":
		why = "upstream itself is denied: " + why
	case same(theirs, ours):
		return ""
	case theirs.failed || ours.failed:
		why = "a strategy could not run"
	case o.denies(t, c, ours, false) == "":
		r.chance++
		return ""
	default:
		if why = o.denies(t, c, ours, true); why == "" {
			r.excepted++
			return ""
		}
	}
	return fmt.Sprintf("%s\nupstream (-) and ours (+): %s\nfailed %t, %t; asked twice %v\nsequences %v and %v\n%s\n%s",
		why, cmp.Diff(theirs.evicted, ours.evicted), theirs.failed, ours.failed, theirs.twice, theirs.sequence,
		ours.sequence, text(c.drawn), c.w)
}

func same(a, b answer) bool { return slices.Equal(a.evicted, b.evicted) && a.failed == b.failed }

// decide runs ours over facts as the queue would write them.
func (w *world) decide(file []byte) (answer, error) {
	p, err := policy.Parse("policy.yaml", file)
	if err != nil {
		return answer{}, err
	}
	snapshot, err := w.snapshot()
	if err != nil {
		return answer{}, err
	}
	accepted, out := descheduling.Collect(descheduling.Input{
		Cluster: snapshot, Policy: p, Now: w.now, Usage: w.usage(), Upstream: true,
	})
	var evicted []string
	for _, c := range accepted {
		evicted = append(evicted, c.Pod.Key())
	}
	a := newAnswer(evicted, len(out.Failed) > 0)
	if len(a.twice) > 0 {
		return a, fmt.Errorf("accepted twice: %v", a.twice)
	}
	return a, nil
}

func (w *world) snapshot() (*state.Snapshot, error) {
	var h statetest.History
	for _, n := range w.nodes {
		upsert(&h, events.KindNode, n.DeepCopy())
	}
	for _, p := range w.pods {
		upsert(&h, events.KindPod, p.DeepCopy())
	}
	for _, n := range w.namespaces {
		upsert(&h, events.KindNamespace, n.DeepCopy())
	}
	for _, b := range w.budgets {
		upsert(&h, events.KindDisruptionBudget, b.DeepCopy())
	}
	for _, c := range w.claims {
		upsert(&h, events.KindVolumeClaim, c.DeepCopy())
	}
	for _, c := range w.classes {
		upsert(&h, events.KindPriorityClass, c.DeepCopy())
	}
	store := state.New()
	_, err := store.Apply(h.Facts)
	return store.Snapshot(), err
}

func upsert(h *statetest.History, kind events.Kind, obj state.APIObject) {
	strip.Strip(obj)
	h.Upsert(kind, obj)
}

func (w *world) usage() descheduling.Usage {
	u := descheduling.Usage{
		Nodes: map[string]map[corev1.ResourceName]int64{}, Pods: map[string]map[corev1.ResourceName]int64{},
		Queries: map[string]map[string]float64{"load": w.ratios},
	}
	for name, use := range w.nodeUse {
		u.Nodes[name] = map[corev1.ResourceName]int64{corev1.ResourceCPU: use[0], corev1.ResourceMemory: use[1]}
	}
	for name, use := range w.podUse {
		u.Pods[name] = map[corev1.ResourceName]int64{corev1.ResourceCPU: use[0], corev1.ResourceMemory: use[1]}
	}
	return u
}

// String lists the world, for failures.
func (w *world) String() string {
	var b strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "node %s %v taints %v cordoned %t allocatable %v\n", n.Name, n.Labels, n.Spec.Taints,
			n.Spec.Unschedulable, n.Status.Allocatable)
	}
	for _, p := range w.pods {
		fmt.Fprintf(&b, "pod %s/%s on %s priority %d phase %s owners %d labels %v annotations %v\n", p.Namespace, p.Name,
			p.Spec.NodeName, priorityOf(p), p.Status.Phase, len(p.OwnerReferences), p.Labels, p.Annotations)
	}
	return b.String()
}

func draw(table map[string]*row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-46s %6s %9s %8s %14s %13s\n", "strategy", "cases", "evicting", "evicted", "other answer",
		"counted once")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		r := table[name]
		percent := func(n int) float64 { return 100 * float64(n) / float64(max(r.cases, 1)) }
		fmt.Fprintf(&b, "%-46s %6d %8.1f%% %8d %13.1f%% %12.1f%%\n", name, r.cases, percent(r.evicting), r.evicted,
			percent(r.chance), percent(r.excepted))
	}
	return b.String()
}
