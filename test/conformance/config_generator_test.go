package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// tree is a YAML map under construction.
type tree = map[string]any

// configGenerator draws configuration files. Most of a file is valid; faults are added to it, so that files are not
// all refused for an obvious mistake.
type configGenerator struct {
	*rand.Rand
	seed uint64
	// round counts how often the current fault has been put into files before: it selects the fault's variant.
	round int
	root  tree
	// lines are appended to the text: what a tree cannot express.
	lines []string
}

func newConfigGenerator(seed uint64) *configGenerator {
	return &configGenerator{Rand: rand.New(rand.NewPCG(seed, 0x636f6e666967)), seed: seed}
}

// Plugins of upstream by where they act, and names that are none.
var (
	pluginsAt = map[string][]string{
		"preEnqueue": {"SchedulingGates", "DynamicResources", "DefaultPreemption"},
		"queueSort":  {"PrioritySort"},
		"preFilter": {
			"NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding",
			"VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
		},
		"filter": {
			"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
			"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
			"InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
		},
		"postFilter": {"DynamicResources", "DefaultPreemption"},
		"preScore": {
			"TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread",
			"InterPodAffinity", "NodeResourcesBalancedAllocation",
		},
		"score": {
			"TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread",
			"InterPodAffinity", "DynamicResources", "NodeResourcesBalancedAllocation", "ImageLocality",
		},
		"reserve":           {"VolumeBinding", "DynamicResources"},
		"permit":            {},
		"preBind":           {"VolumeBinding", "DynamicResources"},
		"bind":              {"DefaultBinder"},
		"postBind":          {},
		"placementGenerate": {},
		"placementScore":    {"NodeResourcesFit"},
	}
	configPoints = []string{
		"preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
		"preBind", "bind", "postBind", "placementGenerate", "placementScore",
	}
	knownPlugins = []string{
		"SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity",
		"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
		"PodTopologySpread", "InterPodAffinity", "DynamicResources", "DefaultPreemption",
		"NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures",
	}
	pluginsWithArgs = []string{
		"DefaultPreemption", "InterPodAffinity", "NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit",
		"PodTopologySpread", "VolumeBinding", "DynamicResources",
	}
	foreignPlugins = []string{"Coscheduling", "NodeFit", "nodename", ""}
	alphaPlugins   = []string{"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
)

// Of nine files in a row four have no fault, one is wild and four have a fault and perhaps
// others. Faults take turns: a run of some length has them all.
const (
	filesInARow  = 9
	validInARow  = 4
	faultyInARow = 4
)

// file draws one.
func (g *configGenerator) file() ([]byte, error) {
	g.root = tree{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	g.numbers()
	g.profiles()
	switch at := int(g.seed % filesInARow); {
	case at < validInARow:
	case at < filesInARow-faultyInARow:
		g.arbitraryPlugins()
	default:
		g.faults(int(g.seed/filesInARow%math.MaxInt32)*faultyInARow + at - (filesInARow - faultyInARow))
	}
	data, err := yaml.Marshal(g.root)
	return append(data, strings.Join(g.lines, "")...), err
}

// faults puts in the fault of this turn, after others that do not hide it.
func (g *configGenerator) faults(turn int) {
	g.round = turn / len(allFaults)
	for range g.IntN(3) {
		visibleFaults[g.IntN(len(visibleFaults))].put(g)
	}
	allFaults[turn%len(allFaults)].put(g)
}

func (g *configGenerator) chance(percent int) bool { return g.IntN(100) < percent }

func draw[T any](g *configGenerator, from ...T) T { return from[g.IntN(len(from))] }

// subset keeps each with the chance given, in random order.
func (g *configGenerator) subset(percent int, from []string) []string {
	var kept []string
	for _, i := range g.Perm(len(from)) {
		if g.chance(percent) {
			kept = append(kept, from[i])
		}
	}
	return kept
}

// maybe sets a field in a share of the files.
func (g *configGenerator) maybe(percent int, in tree, key string, value any) {
	if g.chance(percent) {
		in[key] = value
	}
}

func (g *configGenerator) numbers() {
	g.maybe(30, g.root, "parallelism", 1+g.IntN(64))
	g.maybe(40, g.root, "percentageOfNodesToScore", g.IntN(101))
	initial, longest := 1, 10
	if g.chance(40) {
		initial = 1 + g.IntN(10)
		g.root["podInitialBackoffSeconds"] = initial
	}
	if g.chance(40) {
		longest = initial + g.IntN(20)
		g.root["podMaxBackoffSeconds"] = longest
	}
	g.maybe(30, g.root, "enableProfiling", g.chance(50))
	g.maybe(30, g.root, "enableContentionProfiling", g.chance(50))
	g.maybe(20, g.root, "delayCacheUntilActive", g.chance(50))
	if g.chance(30) {
		g.root["clientConnection"] = g.connection()
	}
	if g.chance(40) {
		g.root["leaderElection"] = g.leaderElection()
	}
}

func (g *configGenerator) connection() tree {
	c := tree{}
	g.maybe(50, c, "kubeconfig", "/etc/kubernetes/scheduler.conf")
	g.maybe(50, c, "qps", draw[any](g, 0, 20, 12.5, 500, -1))
	g.maybe(50, c, "burst", draw(g, 0, 40, 1000))
	g.maybe(30, c, "contentType", "application/json")
	g.maybe(30, c, "acceptContentTypes", "application/json,application/vnd.kubernetes.protobuf")
	return c
}

func (g *configGenerator) leaderElection() tree {
	l := tree{}
	g.maybe(60, l, "leaderElect", g.chance(70))
	g.maybe(30, l, "resourceLock", "leases")
	g.maybe(30, l, "resourceName", "berth")
	g.maybe(30, l, "resourceNamespace", "scheduling")
	g.maybe(30, l, "leaseDuration", draw(g, "15s", "20s", "1m"))
	g.maybe(30, l, "renewDeadline", draw(g, "10s", "5s", "14s"))
	g.maybe(30, l, "retryPeriod", draw(g, "2s", "1s"))
	return l
}

func (g *configGenerator) profiles() {
	count := draw(g, 0, 1, 1, 1, 2, 2, 3)
	sorting := g.queueSort()
	var all []any
	for i := range count {
		p := tree{}
		if count > 1 || g.chance(60) {
			p["schedulerName"] = fmt.Sprintf("scheduler-%d", i)
		}
		g.maybe(40, p, "percentageOfNodesToScore", g.IntN(101))
		if g.chance(75) || sorting != nil {
			p["plugins"] = g.plugins(sorting)
		}
		if configs := g.pluginConfigs(); len(configs) > 0 && g.chance(70) {
			p["pluginConfig"] = configs
		}
		all = append(all, p)
	}
	if count > 0 || g.chance(30) {
		g.root["profiles"] = all
	}
}

// queueSort is the queueSort section of all profiles of a file, mostly empty.
func (g *configGenerator) queueSort() tree {
	switch g.IntN(8) {
	case 0:
		return tree{"enabled": []any{tree{"name": "PrioritySort"}}}
	case 1:
		return tree{"enabled": []any{tree{"name": "PrioritySort"}}, "disabled": []any{tree{"name": "*"}}}
	default:
		return nil
	}
}

// plugins draws lists that a profile can run with: whatever is disabled, a plugin sorts the queue and a plugin binds.
func (g *configGenerator) plugins(sorting tree) tree {
	lists := tree{}
	if g.chance(60) {
		lists["multiPoint"] = g.multiPoint()
	}
	for _, at := range configPoints {
		if at != "queueSort" && g.chance(20) {
			lists[at] = g.list(at)
		}
	}
	if sorting != nil {
		lists["queueSort"] = sorting
	}
	return lists
}

func (g *configGenerator) multiPoint() tree {
	needed := []string{"PrioritySort", "DefaultBinder"}
	isNeeded := func(name string) bool { return slices.Contains(needed, name) }
	enabled := g.subset(draw(g, 0, 10, 40), knownPlugins)
	set := tree{}
	switch {
	case g.chance(20):
		set["disabled"] = []any{tree{"name": "*"}}
		enabled = append(slices.DeleteFunc(enabled, isNeeded), needed...)
	case g.chance(50):
		some := g.subset(10, slices.Concat(knownPlugins, sets.List(removedPlugins)))
		set["disabled"] = named(slices.DeleteFunc(some, isNeeded))
	}
	if len(enabled) > 0 {
		set["enabled"] = g.weighted(enabled)
	}
	return set
}

func (g *configGenerator) list(at string) tree {
	set := tree{}
	if enabled := g.subset(30, pluginsAt[at]); len(enabled) > 0 {
		set["enabled"] = g.weighted(enabled)
	}
	switch {
	case at == "bind" || at == "preFilter" || at == "preScore":
		if g.chance(25) {
			set["disabled"] = named(g.subset(30, []string{"NodeAffinity", "NodeResourcesFit", "NodeVolumeLimits"}))
		}
	case g.chance(25):
		set["disabled"] = []any{tree{"name": "*"}}
	case g.chance(50):
		set["disabled"] = named(g.subset(20, knownPlugins))
	}
	return set
}

func (g *configGenerator) weighted(names []string) []any {
	var list []any
	for _, name := range names {
		p := tree{"name": name}
		g.maybe(50, p, "weight", draw(g, 0, 1, 2, 7, 100, 1<<31-1))
		list = append(list, p)
	}
	return list
}

func named(names []string) []any {
	list := []any{}
	for _, name := range names {
		list = append(list, tree{"name": name})
	}
	return list
}

// arbitraryPlugins puts any names anywhere.
func (g *configGenerator) arbitraryPlugins() {
	names := slices.Concat(knownPlugins, foreignPlugins, alphaPlugins, sets.List(removedPlugins))
	lists := g.section(g.profile(), "plugins")
	for _, at := range append(slices.Clone(configPoints), "multiPoint") {
		if !g.chance(30) {
			continue
		}
		set := tree{}
		var enabled []string
		for range g.IntN(4) {
			enabled = append(enabled, draw(g, names...))
		}
		if len(enabled) > 0 {
			set["enabled"] = g.weighted(enabled)
		}
		if g.chance(30) {
			set["disabled"] = named([]string{draw(g, append(slices.Clone(names), "*")...)})
		}
		lists[at] = set
	}
}

// profile returns one of the profiles, or makes one if there is none.
func (g *configGenerator) profile() tree {
	all, _ := g.root["profiles"].([]any)
	if len(all) == 0 {
		all = []any{tree{}}
		g.root["profiles"] = all
	}
	return all[g.IntN(len(all))].(tree)
}

// section returns a map in a map, and makes it if there is none.
func (g *configGenerator) section(in tree, key string) tree {
	s, ok := in[key].(tree)
	if !ok {
		s = tree{}
		in[key] = s
	}
	return s
}

// enable appends an entry to a list of a profile.
func (g *configGenerator) enable(p tree, at string, entry tree) {
	set := g.section(g.section(p, "plugins"), at)
	list, _ := set["enabled"].([]any)
	set["enabled"] = append(list, entry)
}

// args returns the arguments of a plugin in one of the profiles, made if there are none.
func (g *configGenerator) args(plugin string) tree {
	p := g.profile()
	configs, _ := p["pluginConfig"].([]any)
	for _, c := range configs {
		if c.(tree)["name"] == plugin {
			return g.section(c.(tree), "args")
		}
	}
	args := tree{}
	p["pluginConfig"] = append(configs, tree{"name": plugin, "args": args})
	return args
}
