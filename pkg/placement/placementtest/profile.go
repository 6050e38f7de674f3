package placementtest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// Profile draws a profile of the plugins that are evaluated, cross-node rules included, with random weights and
// arguments; occasionally in another order, or with some of them missing or enabled only for a part of what they
// do.
func (g *Generator) Profile() placement.ProfileConfig {
	p := placement.ProfileConfig{SchedulerName: "default-scheduler"}
	for _, c := range placement.DefaultProfile("").Plugins {
		switch c.Name {
		case names.NodeAffinity:
			c.Args = g.affinityArgs()
		case names.NodeResourcesFit:
			c.Args = g.fitArgs()
		case names.NodeResourcesBalancedAllocation:
			c.Args = g.balancedArgs()
		case names.PodTopologySpread:
			c.Args = g.spreadArgs()
		case names.InterPodAffinity:
			c.Args = g.podAffinityArgs()
		case names.SchedulingGates, names.PrioritySort, names.NodeUnschedulable, names.NodeName,
			names.TaintToleration, names.NodePorts, names.ImageLocality, names.DefaultBinder,
			names.NodeDeclaredFeatures:
		case names.VolumeZone:
			// If a volume is missing, this plugin rejects first, and VolumeBinding is never reached.
			if g.Size.Volumes == 0 || g.Chance(20) {
				continue
			}
		case names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding:
			if g.Size.Volumes == 0 {
				continue
			}
		case names.DynamicResources:
			if g.Size.Devices == 0 {
				continue
			}
		default:
			continue
		}
		if g.Chance(20) {
			c.Weight = Pick[int32](g, 0, 1, 5, 100)
		}
		p.Plugins = append(p.Plugins, c)
	}
	if g.Chance(20) {
		rest := p.Plugins[1:] // gates come first in any order: kube-scheduler's queue evaluates them
		g.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	}
	for g.Chance(10) {
		p.Plugins = slices.DeleteFunc(p.Plugins, func(c placement.PluginConfig) bool {
			return !required(c.Name) && g.IntN(len(p.Plugins)) == 0
		})
	}
	for g.Chance(15) {
		c := &p.Plugins[g.IntN(len(p.Plugins))]
		c.Points = g.points(c.Name)
	}
	return p
}

// required reports whether a plugin has to be in every profile.
func required(plugin string) bool {
	return plugin == names.PrioritySort || plugin == names.DefaultBinder ||
		plugin == names.VolumeBinding // without it, a rejection becomes an error
}

// points draws a subset of the points of a plugin that has several; all for others. (kube-scheduler fails every pod
// when Filter is enabled without the PreFilter that it needs.)
func (g *Generator) points(plugin string) placement.Points {
	const filtering = placement.Narrowing | placement.Filtering
	switch plugin {
	case names.NodeAffinity:
		return Pick(g, filtering, placement.Scoring, placement.Narrowing, placement.Filtering,
			placement.Filtering|placement.Scoring)
	case names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity:
		return Pick(g, filtering, placement.Scoring, placement.Narrowing)
	case names.TaintToleration:
		return Pick(g, placement.Filtering, placement.Scoring)
	default:
		return 0
	}
}

func (g *Generator) affinityArgs() *configv1.NodeAffinityArgs {
	args := &configv1.NodeAffinityArgs{}
	if !g.Chance(25) {
		return args
	}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
		}}
	}
	args.AddedAffinity = &corev1.NodeAffinity{}
	if g.Chance(40) {
		args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{in("zone", "a", "b", "c")},
		}
	}
	if g.Chance(60) {
		args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 30, Preference: in("disk", "ssd")},
		}
	}
	return args
}

func (g *Generator) fitArgs() *configv1.NodeResourcesFitArgs {
	args := &configv1.NodeResourcesFitArgs{
		IgnoredResources:      Some(g, 10, string(gpu)),
		IgnoredResourceGroups: Some(g, 10, "vendor.io"),
	}
	if g.Chance(40) {
		return args
	}
	args.ScoringStrategy = &configv1.ScoringStrategy{
		Type:      Pick(g, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio),
		Resources: g.resourceSpecs(5),
	}
	if args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
		args.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{
			Shape: Pick(g,
				[]configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}},
				[]configv1.UtilizationShapePoint{
					{Utilization: 10, Score: 9}, {Utilization: 60, Score: 1}, {Utilization: 70, Score: 5},
				},
			),
		}
	}
	return args
}

// balancedArgs leaves out resources that devices may back: kube-scheduler 1.36.3 panics when it balances them,
// since that rule has no compiler for the expressions of classes.
func (g *Generator) balancedArgs() *configv1.NodeResourcesBalancedAllocationArgs {
	if g.Chance(60) {
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	}
	specs := g.resourceSpecs(1)
	if g.Size.Devices > 0 {
		specs = slices.DeleteFunc(specs, func(s configv1.ResourceSpec) bool { return s.Name == string(gpu) })
	}
	return &configv1.NodeResourcesBalancedAllocationArgs{Resources: specs}
}

func (g *Generator) resourceSpecs(maxWeight int64) []configv1.ResourceSpec {
	var specs []configv1.ResourceSpec
	for _, name := range Some(g, 60, "cpu", "memory", "ephemeral-storage", string(gpu), string(hugepage)) {
		specs = append(specs, configv1.ResourceSpec{Name: name, Weight: 1 + g.Int64N(maxWeight)})
	}
	return specs
}

func (g *Generator) spreadArgs() *configv1.PodTopologySpreadArgs {
	if g.Chance(65) {
		return &configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}
	}
	args := &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	seen := map[string]bool{}
	for range g.IntN(4) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: Pick[int32](g, 1, 2, 5), TopologyKey: g.topologyKey(),
			WhenUnsatisfiable: g.whenUnsatisfiable(),
		}
		if id := fmt.Sprint(c.TopologyKey, c.WhenUnsatisfiable); !seen[id] {
			seen[id] = true
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}

func (g *Generator) podAffinityArgs() *configv1.InterPodAffinityArgs {
	weight := Pick[int32](g, 0, 1, 1, 5, 100)
	return &configv1.InterPodAffinityArgs{
		HardPodAffinityWeight: &weight, IgnorePreferredTermsOfExistingPods: g.Chance(25),
	}
}
