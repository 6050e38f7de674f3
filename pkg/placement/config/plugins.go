package config

import (
	"cmp"
	"slices"
	"strings"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// Point is an extension point in the spelling of the configuration file.
type Point string

// The extension points of a profile. multiPoint is not one of them: it stands for all.
const (
	PreEnqueue Point = "preEnqueue"
	QueueSort  Point = "queueSort"
	PreFilter  Point = "preFilter"
	Filter     Point = "filter"
	PostFilter Point = "postFilter"
	PreScore   Point = "preScore"
	Score      Point = "score"
	Reserve    Point = "reserve"
	Permit     Point = "permit"
	PreBind    Point = "preBind"
	Bind       Point = "bind"
	PostBind   Point = "postBind"

	placementGenerate Point = "placementGenerate"
	placementScore    Point = "placementScore"
	multiPoint        Point = "multiPoint"
)

// points lists the points that a profile is resolved for, in the order in which a pod passes them.
var points = []Point{
	PreEnqueue, QueueSort, PreFilter, Filter, PostFilter, PreScore, Score,
	Reserve, Permit, PreBind, Bind, PostBind, placementGenerate, placementScore,
}

// implemented maps each plugin of kube-scheduler 1.36 to the points at which it acts (the interface assertions
// next to the plugins in pkg/scheduler/framework/plugins). GangScheduling, TopologyPlacementGenerator and
// PodGroupPodsCount are absent: their gates are alpha and disabled. A plugin can be enabled only at the points
// listed here, and multiPoint enables it at all of them.
var implemented = map[string][]Point{
	"SchedulingGates":                 {PreEnqueue},
	"PrioritySort":                    {QueueSort},
	"NodeUnschedulable":               {Filter},
	"NodeName":                        {Filter},
	"TaintToleration":                 {Filter, PreScore, Score},
	"NodeAffinity":                    {PreFilter, Filter, PreScore, Score},
	"NodePorts":                       {PreFilter, Filter},
	"NodeResourcesFit":                {PreFilter, Filter, PreScore, Score, placementScore},
	"VolumeRestrictions":              {PreFilter, Filter},
	"NodeVolumeLimits":                {PreFilter, Filter},
	"VolumeBinding":                   {PreFilter, Filter, Reserve, PreBind, PreScore, Score},
	"VolumeZone":                      {PreFilter, Filter},
	"PodTopologySpread":               {PreFilter, Filter, PreScore, Score},
	"InterPodAffinity":                {PreFilter, Filter, PreScore, Score},
	"DynamicResources":                {PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind},
	"DefaultPreemption":               {PreEnqueue, PostFilter},
	"NodeResourcesBalancedAllocation": {PreScore, Score},
	"ImageLocality":                   {Score},
	"DefaultBinder":                   {Bind},
	"NodeDeclaredFeatures":            {PreFilter, Filter},
}

// needsBefore holds the plugins that at this point depend on results of the point before: preFilter for filter,
// preScore for score. The other plugins can compute them again.
var needsBefore = map[Point][]string{
	Filter: {
		"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "VolumeBinding", "PodTopologySpread",
		"InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
	},
	Score: {"TaintToleration", "PodTopologySpread", "InterPodAffinity"},
}

// removed holds plugins that older configurations name and version v1 rejects
// (pkg/scheduler/apis/config/validation). Disabling one has no effect.
var removed = []string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}

// defaultMultiPoint returns the set that every profile starts from, in running order; weight 0 means that none is
// given (pkg/scheduler/apis/config/v1/default_plugins.go with 1.36's default gates).
func defaultMultiPoint() []schedulerv1.Plugin {
	weighted := func(name string, weight int32) schedulerv1.Plugin {
		return schedulerv1.Plugin{Name: name, Weight: &weight}
	}
	return []schedulerv1.Plugin{
		{Name: "SchedulingGates"},
		{Name: "PrioritySort"},
		{Name: "NodeUnschedulable"},
		{Name: "NodeName"},
		weighted("TaintToleration", 3),
		weighted("NodeAffinity", 2),
		{Name: "NodePorts"},
		weighted("NodeResourcesFit", 1),
		{Name: "VolumeRestrictions"},
		{Name: "NodeVolumeLimits"},
		{Name: "VolumeBinding"},
		{Name: "VolumeZone"},
		weighted("PodTopologySpread", 2),
		weighted("InterPodAffinity", 2),
		weighted("DynamicResources", 2),
		{Name: "DefaultPreemption"},
		weighted("NodeResourcesBalancedAllocation", 1),
		weighted("ImageLocality", 1),
		{Name: "DefaultBinder"},
		{Name: "NodeDeclaredFeatures"},
	}
}

// joinPoints lists points for a message.
func joinPoints(ps []Point) string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// pluginSet returns the file's set for one extension point; for multiPoint, the one that applies everywhere.
func pluginSet(p *schedulerv1.Plugins, at Point) schedulerv1.PluginSet { return *setOf(p, at) }

// setOf returns the place of that set.
func setOf(p *schedulerv1.Plugins, at Point) *schedulerv1.PluginSet {
	switch at {
	case PreEnqueue:
		return &p.PreEnqueue
	case QueueSort:
		return &p.QueueSort
	case PreFilter:
		return &p.PreFilter
	case Filter:
		return &p.Filter
	case PostFilter:
		return &p.PostFilter
	case PreScore:
		return &p.PreScore
	case Score:
		return &p.Score
	case Reserve:
		return &p.Reserve
	case Permit:
		return &p.Permit
	case PreBind:
		return &p.PreBind
	case Bind:
		return &p.Bind
	case PostBind:
		return &p.PostBind
	case placementGenerate:
		return &p.PlacementGenerate
	case placementScore:
		return &p.PlacementScore
	default:
		return &p.MultiPoint
	}
}

// EnabledPlugin is one plugin at one extension point. Weight counts only at score and is at least 1.
type EnabledPlugin struct {
	Name   string
	Weight int32
}

// enabled fills in the weight: none and 0 mean 1.
func enabled(p schedulerv1.Plugin) EnabledPlugin {
	var weight int32
	if p.Weight != nil {
		weight = *p.Weight
	}
	return EnabledPlugin{Name: p.Name, Weight: cmp.Or(weight, 1)}
}

// find returns the position of a plugin, -1 for none.
func find(ps []EnabledPlugin, name string) int {
	return slices.IndexFunc(ps, func(p EnabledPlugin) bool { return p.Name == name })
}

// isIn reports whether a plugin is in the list.
func isIn(ps []EnabledPlugin, name string) bool { return find(ps, name) >= 0 }

// withoutCustom returns the plugins that are kube-scheduler's own.
func withoutCustom(ps []EnabledPlugin) []EnabledPlugin {
	return slices.DeleteFunc(slices.Clone(ps), func(p EnabledPlugin) bool { return implemented[p.Name] == nil })
}
