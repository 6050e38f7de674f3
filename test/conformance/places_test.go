package conformance

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/test/conformance/places"
)

var placesLarge = flag.Bool("places-large", false, "compare places in clusters of up to 2,000 nodes, of up to 8 shards")

// grid is the clusters in which pods are placed one by one.
type grid struct {
	nodes, shards []int
	// pods are placed in each.
	pods int
}

func theGrid() grid {
	if *placesLarge {
		return grid{nodes: []int{40, 150, 300, 1000, 2000}, shards: []int{1, 2, 3, 4, 8}, pods: 120}
	}
	return grid{nodes: []int{60, 300}, shards: []int{1, 2, 4}, pods: 40}
}

// shortfalls are by how many points placements fell short of the best total of all feasible nodes.
type shortfalls struct {
	pods, short, home int
	worst, sum        int64
}

// mean is over all pods.
func (s shortfalls) mean() float64 { return float64(s.sum) / float64(max(s.pods, 1)) }

// TestPlacesOnACalmCluster: pods that come one by one get one of the nodes that kube-scheduler's own plugins score best
// of all nodes, however many shards there are.
func TestPlacesOnACalmCluster(t *testing.T) {
	prepareUpstream()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "nodes\tshards\tpods\tshort of the best\tworst\tmean\t")
	g := theGrid()
	for _, nodes := range g.nodes {
		for _, shards := range g.shards {
			_, got := playAndScore(t, calm(nodes, shards, g.pods))
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%.2f\t\n", nodes, shards, got.pods, got.short, got.worst, got.mean())
			if got.short > 0 {
				t.Errorf("%d nodes, %d shards: %d of %d pods are short of the best total, by up to %d points",
					nodes, shards, got.short, got.pods, got.worst)
			}
		}
	}
	_ = w.Flush()
	t.Logf("pods one by one:\n%s", table.String())
}

// TestPlacesFallShort: the comparison sees places that are short of the best, here because the home nodes come first.
func TestPlacesFallShort(t *testing.T) {
	prepareUpstream()
	cfg := calm(300, 4, 40)
	cfg.Profile.HomeNodesFirst = placement.HomeAlways
	if _, got := playAndScore(t, cfg); got.home == 0 || got.short == 0 {
		t.Errorf("%d of %d pods at home, %d short of the best: want some", got.home, got.pods, got.short)
	}
}

// calm returns a run in which pods of all kinds come one by one.
func calm(nodes, shards, pods int) places.Config {
	draw := places.NewDraw(uint64(1000*nodes + shards))
	cfg := places.Config{
		Shards: shards, Profile: placement.DefaultProfile(places.SchedulerName), Nodes: draw.Nodes(nodes),
	}
	cfg.Standing = draw.Standing(cfg.Nodes)
	for range pods {
		cfg.Pods = append(cfg.Pods, draw.Ruled())
	}
	return cfg
}

// mostShort is how many points a placement may be short of the best on average while a queue is drained by four shards.
const mostShort = 5

// TestPlacesUnderLoad: four shards that drain a queue at full rate choose among their home nodes, or among all where
// they have few. Placements are compared with the best of all nodes at their time, in the order of the ledger.
func TestPlacesUnderLoad(t *testing.T) {
	prepareUpstream()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "nodes\tshards\tpolicy\tpods\tat home\tshort of the best\tworst\tmean\traces lost\t")
	nodes, pods := []int{60, 300}, 300
	if *placesLarge {
		nodes, pods = []int{60, 300, 1000}, 600
	}
	for _, n := range nodes {
		for _, l := range []load{
			{1, placement.HomeAuto, "equal"}, {4, placement.HomeAuto, "equal"}, {4, placement.HomeNever, "equal"},
			{4, placement.HomeAuto, "mixed"}, {4, placement.HomeAlways, "mixed"}, {4, placement.HomeNever, "mixed"},
		} {
			played, got := playAndScore(t, l.config(n, pods))
			fmt.Fprintf(w, "%d\t%d\t%s\t%d %s\t%d\t%d\t%d\t%.2f\t%d\t\n", n, l.shards, l.policy, got.pods, l.kind, got.home,
				got.short, got.worst, got.mean(), played.Lost["node"])
			if l.policy == placement.HomeAuto && got.mean() > mostShort {
				t.Errorf("%d nodes, %+v: %.1f points short on average, want at most %d", n, l, got.mean(), mostShort)
			}
		}
	}
	_ = w.Flush()
	t.Logf("a queue at full rate:\n%s", table.String())
}

// load is a queue of equal or mixed pods that shards drain.
type load struct {
	shards int
	policy placement.HomePolicy
	kind   string
}

func (l load) config(nodes, pods int) places.Config {
	draw := places.NewDraw(uint64(1000 * nodes))
	cfg := places.Config{
		Shards: l.shards, Profile: placement.DefaultProfile(places.SchedulerName), Nodes: draw.Nodes(nodes),
		Every: 300 * time.Microsecond,
	}
	cfg.Profile.HomeNodesFirst = l.policy
	for range pods {
		p := draw.Mixed()
		if l.kind == "equal" {
			p = draw.Pod("100m", "256Mi")
		}
		cfg.Pods = append(cfg.Pods, p)
	}
	return cfg
}

// TestPackingByShards: four shards that pack nodes at full rate use hardly more nodes than one shard.
func TestPackingByShards(t *testing.T) {
	nodes, pods := 200, 1250
	if *placesLarge {
		nodes, pods = 800, 5000
	}
	used := map[int]int{}
	for _, shards := range []int{1, 4} {
		draw := places.NewDraw(7)
		cfg := places.Config{Shards: shards, Profile: packing(), Every: 250 * time.Microsecond}
		for i := range nodes {
			cfg.Nodes = append(cfg.Nodes, places.Node(i, "8", "32Gi"))
		}
		for range pods {
			cfg.Pods = append(cfg.Pods, draw.Mixed())
		}
		played, err := places.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		taken := map[string]bool{}
		for _, p := range played.Placed {
			taken[p.Node] = true
		}
		used[shards] = len(taken)
		t.Logf("%d shards pack %d pods on %d of %d nodes; races lost: %v", shards, pods, len(taken), nodes, played.Lost)
	}
	// Each shard leaves one node partly filled, which weighs more where there are few nodes.
	if most := used[1] + max(used[1]*2/100, 4); used[4] > most {
		t.Errorf("four shards use %d nodes, one uses %d: want at most %d", used[4], used[1], most)
	}
}

// packing is the default profile with MostAllocated.
func packing() placement.ProfileConfig {
	profile := placement.DefaultProfile(places.SchedulerName)
	for i := range profile.Plugins {
		if profile.Plugins[i].Name == names.NodeResourcesFit {
			profile.Plugins[i].Args = &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
				Type: configv1.MostAllocated, Resources: []configv1.ResourceSpec{
					{Name: string(corev1.ResourceCPU), Weight: 1}, {Name: string(corev1.ResourceMemory), Weight: 1},
				},
			}}
		}
	}
	return profile
}

// playAndScore runs the shards, and then scores each placement by upstream's plugins, on the cluster as it was before.
func playAndScore(t *testing.T, cfg places.Config) (places.Result, shortfalls) {
	t.Helper()
	played, err := places.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	upstream, err := newOracle(ctx, deciding(cfg.Profile))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(e placementtest.Event) {
		if err := upstream.apply(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range cfg.Nodes {
		apply(event(nil, n))
	}
	for _, p := range cfg.Standing {
		apply(event(nil, p))
	}
	var got shortfalls
	for _, p := range played.Placed {
		short, err := shortOf(upstream.decide(ctx, p.Pod), p.Node)
		if err != nil {
			t.Fatalf("%d nodes, %d shards: %s: %v", len(cfg.Nodes), cfg.Shards, p.Pod.Name, err)
		}
		got.add(short, p.Home)
		bound := p.Pod.DeepCopy()
		bound.Spec.NodeName = p.Node
		apply(placementtest.Event{What: "bind", Kind: events.KindPod, New: bound})
	}
	return played, got
}

// deciding leaves out the plugin that acts where no node passes, which takes no part in scores.
func deciding(p placement.ProfileConfig) placement.ProfileConfig {
	p.Plugins = slices.DeleteFunc(slices.Clone(p.Plugins), func(c placement.PluginConfig) bool {
		return c.Name == names.DefaultPreemption
	})
	return p
}

func (s *shortfalls) add(short int64, home bool) {
	s.pods++
	if home {
		s.home++
	}
	if short > 0 {
		s.short++
	}
	s.sum += short
	s.worst = max(s.worst, short)
}

// shortOf returns by how many points a node is short of the best in an answer of upstream's.
func shortOf(a answer, node string) (int64, error) {
	if a.Failed || a.Nominated != "" {
		return 0, fmt.Errorf("upstream decides otherwise: %+v", a)
	}
	passes := func(n nodeAnswer) bool { return n.Scores != nil }
	chosen, known := a.Nodes[node]
	if !known || !passes(chosen) {
		return 0, fmt.Errorf("upstream does not place it on %s: %s", node, strings.Join(chosen.Reasons, "; "))
	}
	totals := []int64{chosen.Total}
	for _, n := range a.Nodes {
		if passes(n) {
			totals = append(totals, n.Total)
		}
	}
	return slices.Max(totals) - chosen.Total, nil
}
