package descheduling

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var (
	cases = flag.Int("cases", 2000, "how many clusters, and how many policies, to compare")
	seed  = flag.Uint64("seed", 0, "seed of the first case; 0 draws one")
)

func firstSeed(t *testing.T) uint64 {
	t.Helper()
	first := *seed
	if first == 0 {
		first = rand.Uint64()>>1 + 1
	}
	t.Logf("first seed %d; replay with -args -seed=%d -cases=%d", first, first, *cases)
	return first
}

const (
	// reruns is how often upstream may answer again before a difference counts.
	reruns = 60
	// leastEvicting is the share of cases, in percent, in which each strategy must evict.
	leastEvicting = 20
)

// row of the table that a run prints.
type row struct {
	cases, evicting, evicted int
	// chance counts cases in which upstream's own answers differ, by what they differ with.
	chance map[string]int
	// excepted counts cases that a named exception explains.
	excepted map[string]int
}

// TestStrategies: on the same cluster and policy, both evict the same pods.
func TestStrategies(t *testing.T) {
	o, first := newOracle(t), firstSeed(t)
	table := map[string]*row{}
	strategies := slices.Sorted(maps.Keys(drawers))
	for _, name := range strategies {
		table[name] = &row{chance: map[string]int{}, excepted: map[string]int{}}
	}
	for i := range uint64(*cases) {
		at := first + i
		name := strategies[at%uint64(len(strategies))]
		if diff := o.compare(t, at, name, table[name]); diff != "" {
			t.Fatalf("seed %d, %s: %s\nreplay with -args -seed=%d -cases=1", at, name, diff, at)
		}
	}
	t.Log(draw(table))
	for _, name := range strategies {
		if r := table[name]; *cases >= 1000 && r.evicting*100 < leastEvicting*r.cases {
			t.Errorf("%s evicted in %d of %d cases, want %d%% at least", name, r.evicting, r.cases, leastEvicting)
		}
	}
}

// compare returns how the sides differ, or nothing.
func (o *oracle) compare(t *testing.T, seed uint64, strategy string, r *row) string {
	s := newSource(seed)
	w := drawWorld(s, strategy)
	drawn := drawPolicy(s, strategy)
	file := text(drawn)
	theirs, err := o.run(t.Context(), w, file, nil)
	if err != nil {
		return fmt.Sprintf("upstream: %v\n%s", err, file)
	}
	ours, err := w.decide(file)
	if err != nil {
		return fmt.Sprintf("ours: %v\n%s", err, file)
	}
	r.cases++
	if len(ours.evicted) > 0 {
		r.evicting++
		r.evicted += len(ours.evicted)
	}
	if same(theirs, ours) {
		return ""
	}
	if name := exception(strategy, drawn, w, theirs); name != "" {
		r.excepted[name]++
		return ""
	}
	if why, ok := o.byChance(t, w, file, theirs, ours); ok {
		r.chance[why]++
		return ""
	}
	return fmt.Sprintf("upstream (-) and ours (+): %s\nfailed %t, %t; asked twice %v\n%s\n%s",
		cmp.Diff(theirs.evicted, ours.evicted), theirs.failed, ours.failed, theirs.twice, file, w)
}

func same(a, b answer) bool { return slices.Equal(a.evicted, b.evicted) && a.failed == b.failed }

// byChance lets upstream answer again, with its pods in another order if their order may
// matter, until it says what we say. Where several things are up to chance that may be never;
// then it is enough that upstream contradicts itself, that we evict as many pods as some
// answers do, and no pod that none of them does.
func (o *oracle) byChance(t *testing.T, w *world, file []byte, first, ours answer) (why string, ok bool) {
	least, most, possible := len(first.evicted), len(first.evicted), map[string]bool{}
	contradicts := false
	for i := range reruns {
		var order *rand.Rand
		why := "order of maps"
		if w.ties && i%2 == 1 {
			order, why = rand.New(rand.NewPCG(uint64(i), 0)), "order of equals"
		}
		again, err := o.run(t.Context(), w, file, order)
		if err != nil {
			return "", false
		}
		if same(again, ours) {
			return why, true
		}
		least, most = min(least, len(again.evicted)), max(most, len(again.evicted))
		contradicts = contradicts || !same(first, again)
		for _, name := range again.evicted {
			possible[name] = true
		}
	}
	within := len(ours.evicted) >= least && len(ours.evicted) <= most
	impossible := slices.ContainsFunc(ours.evicted, func(name string) bool { return !possible[name] })
	return "several orders", contradicts && within && !impossible && ours.failed == first.failed
}

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
	state.Strip(obj)
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
	fmt.Fprintf(&b, "%-46s %6s %9s %8s  %s\n", "strategy", "cases", "evicting", "evicted", "explained otherwise")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		r := table[name]
		fmt.Fprintf(&b, "%-46s %6d %8.1f%% %8d ", name, r.cases, 100*float64(r.evicting)/float64(max(r.cases, 1)), r.evicted)
		for _, m := range []map[string]int{r.chance, r.excepted} {
			for _, why := range slices.Sorted(maps.Keys(m)) {
				fmt.Fprintf(&b, " %s: %d", why, m[why])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
