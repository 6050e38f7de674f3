package conformance

import "math"

// fault is one way to get a file wrong, or to write what Berth takes otherwise.
type fault struct {
	name string
	put  func(*configGenerator)
}

// set is a fault in a field of the file.
func set(name, key string, values ...any) fault {
	return fault{name, func(g *configGenerator) { g.root[key] = values[g.round%len(values)] }}
}

// setIn is a fault in a field of a part of the file.
func setIn(name, section, key string, values ...any) fault {
	return fault{name, func(g *configGenerator) { g.section(g.root, section)[key] = values[g.round%len(values)] }}
}

// arg is a fault in an argument of a plugin.
func arg(name, plugin, key string, values ...any) fault {
	return fault{name, func(g *configGenerator) { g.args(plugin)[key] = values[g.round%len(values)] }}
}

// args is a fault in several.
func args(name, plugin string, values tree) fault {
	return fault{name, func(g *configGenerator) {
		into := g.args(plugin)
		for key, value := range values {
			into[key] = value
		}
	}}
}

// wrongList is a fault in a list of plugins: entries are appended to it.
func wrongList(name, at string, entries ...string) fault {
	return fault{name, func(g *configGenerator) {
		p := g.profile()
		for _, entry := range entries {
			g.enable(p, at, tree{"name": entry})
		}
	}}
}

func constraint(key, when string, skew int) tree {
	c := tree{"maxSkew": skew, "topologyKey": key}
	if when != "" {
		c["whenUnsatisfiable"] = when
	}
	return c
}

// visibleFaults leave a file readable; the others hide further mistakes.
var (
	visibleFaults = concat(numberFaults, profileFaults, pluginFaults, argumentFaults, extenderFaults, berthFaults)
	allFaults     = concat(visibleFaults, decodingFaults)
)

func concat(lists ...[]fault) (all []fault) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

var numberFaults = []fault{
	set("parallelism", "parallelism", 0, -4),
	set("percentage", "percentageOfNodesToScore", -1, 101),
	{"percentage of a profile", func(g *configGenerator) {
		g.profile()["percentageOfNodesToScore"] = draw(g, -1, 101, 1000)
	}},
	set("initial backoff", "podInitialBackoffSeconds", 0, -1, 30),
	set("longest backoff", "podMaxBackoffSeconds", 0, -1),
	setIn("burst", "clientConnection", "burst", -1),
	setIn("resource lock", "leaderElection", "resourceLock", "endpoints", "configmaps"),
	setIn("lease", "leaderElection", "leaseDuration", "-1s", "3s"),
	setIn("renew deadline", "leaderElection", "renewDeadline", "-1s", "3m"),
	setIn("retry period", "leaderElection", "retryPeriod", "-1s"),
}

var profileFaults = []fault{
	{"no scheduler name", func(g *configGenerator) { g.profile()["schedulerName"] = "" }},
	{"two of a name", func(g *configGenerator) {
		g.profile()["schedulerName"] = "twin"
		all := g.root["profiles"].([]any)
		g.root["profiles"] = append(all, tree{"schedulerName": "twin"})
	}},
	{"two nameless", func(g *configGenerator) {
		all, _ := g.root["profiles"].([]any)
		g.root["profiles"] = append(all, tree{}, tree{})
	}},
	{"queues sorted otherwise", func(g *configGenerator) {
		all, _ := g.root["profiles"].([]any)
		g.root["profiles"] = append(all, tree{"schedulerName": "other", "plugins": tree{"queueSort": tree{
			"enabled": []any{tree{"name": "PrioritySort", "weight": 3}},
		}}})
	}},
}

var pluginFaults = []fault{
	wrongList("unknown at a point", "filter", "NodeFit"),
	wrongList("unknown at all points", "multiPoint", "Coscheduling"),
	wrongList("removed at a point", "preFilter", "EBSLimits"),
	wrongList("removed at another point", "score", "CinderLimits", "AzureDiskLimits"),
	wrongList("removed at all points", "multiPoint", "GCEPDLimits"),
	wrongList("misplaced", "filter", "ImageLocality"),
	wrongList("misplaced too", "permit", "DefaultBinder"),
	wrongList("twice at a point", "score", "NodeName", "NodeName"),
	wrongList("twice at filter", "filter", "NodeName", "NodeName"),
	wrongList("twice at all points", "multiPoint", "NodePorts", "NodePorts", "NodePorts"),
	wrongList("two queue sorts", "queueSort", "PrioritySort", "PrioritySort"),
	wrongList("an odd queue sort", "queueSort", "NodeName"),
	{"no queue sort", func(g *configGenerator) {
		g.section(g.profile(), "plugins")["queueSort"] = tree{"disabled": []any{tree{"name": "*"}}}
	}},
	{"no binder", func(g *configGenerator) {
		g.section(g.profile(), "plugins")["bind"] = tree{"disabled": []any{tree{"name": "DefaultBinder"}}}
	}},
	{"nothing enabled", func(g *configGenerator) {
		g.profile()["plugins"] = tree{"multiPoint": tree{"disabled": []any{tree{"name": "*"}}}}
	}},
}

var argumentFaults = []fault{
	{"arguments twice", func(g *configGenerator) {
		p := g.profile()
		list, _ := p["pluginConfig"].([]any)
		p["pluginConfig"] = append(list,
			tree{"name": "VolumeBinding"}, tree{"name": "VolumeBinding", "args": tree{"bindTimeoutSeconds": -3}})
	}},
	{"arguments of a removed plugin", func(g *configGenerator) {
		p := g.profile()
		list, _ := p["pluginConfig"].([]any)
		p["pluginConfig"] = append(list, tree{"name": "EBSLimits"})
	}},
	arg("preemption percentage", "DefaultPreemption", "minCandidateNodesPercentage", -1, 101),
	arg("preemption count", "DefaultPreemption", "minCandidateNodesAbsolute", -1),
	args("no preemption candidates", "DefaultPreemption",
		tree{"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}),
	arg("hard affinity", "InterPodAffinity", "hardPodAffinityWeight", -1, 101),
	arg("required affinity", "NodeAffinity", "addedAffinity", tree{
		"requiredDuringSchedulingIgnoredDuringExecution": tree{"nodeSelectorTerms": []any{
			tree{"matchExpressions": []any{tree{"key": "a b", "operator": "Inside", "values": []any{"x"}}}},
		}},
	}, tree{
		"requiredDuringSchedulingIgnoredDuringExecution": tree{"nodeSelectorTerms": []any{
			tree{"matchFields": []any{tree{"key": "metadata.name", "operator": "In", "values": []any{"x", "y"}}}},
		}},
	}),
	arg("preferred affinity", "NodeAffinity", "addedAffinity", tree{
		"preferredDuringSchedulingIgnoredDuringExecution": []any{tree{"weight": 1, "preference": tree{
			"matchExpressions": []any{tree{"key": "a", "operator": "Gt", "values": []any{"x", "1"}}},
		}}},
	}),
	arg("balanced resources", "NodeResourcesBalancedAllocation", "resources",
		[]any{tree{"name": "cpu"}, tree{"name": "memory"}, tree{"name": "cpu"}}, []any{tree{"name": "cpu", "weight": 2}}),
	arg("ignored resources", "NodeResourcesFit", "ignoredResources", []any{"a b", "cpu"}, []any{""}),
	arg("ignored groups", "NodeResourcesFit", "ignoredResourceGroups", []any{"example.com/x"}, []any{"a b"}, []any{""}),
	arg("strategy type", "NodeResourcesFit", "scoringStrategy",
		tree{"resources": []any{tree{"name": "cpu"}}}, tree{"type": "Best"},
		tree{"type": "Best", "requestedToCapacityRatio": tree{}}),
	arg("strategy weights", "NodeResourcesFit", "scoringStrategy",
		tree{"type": "MostAllocated", "resources": []any{
			tree{"name": "cpu", "weight": 101}, tree{"name": "x", "weight": -1},
		}}),
	arg("a curve that is not asked for", "NodeResourcesFit", "scoringStrategy",
		tree{"type": "LeastAllocated", "requestedToCapacityRatio": tree{"shape": []any{}}}),
	arg("a curve that is missing", "NodeResourcesFit", "scoringStrategy",
		tree{"type": "RequestedToCapacityRatio"},
		tree{"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": tree{}}),
	arg("a wrong curve", "NodeResourcesFit", "scoringStrategy", tree{
		"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": tree{"shape": []any{
			tree{"utilization": -1, "score": 11}, tree{"utilization": -1, "score": -1}, tree{"utilization": 101, "score": 0},
		}},
	}, tree{
		"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": tree{"shape": []any{
			tree{"utilization": 50, "score": 1}, tree{"utilization": 40, "score": 2}, tree{"utilization": 30, "score": 3},
		}},
	}),
	arg("defaulting", "PodTopologySpread", "defaultingType", "Mine"),
	args("constraints of one's own by the system", "PodTopologySpread", tree{
		"defaultingType": "System", "defaultConstraints": []any{constraint("zone", "DoNotSchedule", 1)},
	}),
	args("constraints", "PodTopologySpread", tree{"defaultingType": "List", "defaultConstraints": []any{
		constraint("", "", 0), constraint("a b", "Sometimes", -1), constraint("zone", "ScheduleAnyway", 1),
		constraint("zone", "ScheduleAnyway", 2), tree{
			"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": tree{},
		},
	}}),
	arg("bind timeout", "VolumeBinding", "bindTimeoutSeconds", -1),
	arg("volume shape", "VolumeBinding", "shape", []any{}, []any{tree{"utilization": 0, "score": 1}}),
	arg("filter timeout", "DynamicResources", "filterTimeout", "-1s"),
	arg("binding timeout", "DynamicResources", "bindingTimeout", "0s", "999ms"),
}

func extenderTree(fields tree) tree {
	e := tree{"urlPrefix": "http://127.0.0.1:1"}
	for key, value := range fields {
		e[key] = value
	}
	return e
}

var extenderFaults = []fault{
	set("extender address", "extenders", []any{extenderTree(tree{"urlPrefix": "", "filterVerb": "filter"})}),
	set("extender weight", "extenders", []any{extenderTree(tree{"prioritizeVerb": "p"})}),
	set("extender resources", "extenders", []any{extenderTree(tree{"managedResources": []any{
		tree{"name": "a b"}, tree{"name": "cpu"}, tree{"name": "example.com/x"}, tree{"name": "example.com/x"},
	}})}),
	set("two binding extenders", "extenders",
		[]any{extenderTree(tree{"bindVerb": "b"}), extenderTree(tree{"bindVerb": "b"})}),
}

// decodingFaults make upstream refuse a file before it looks at values.
var decodingFaults = []fault{
	set("unknown field", "parallelisms", 3),
	{"unknown field of a profile", func(g *configGenerator) { g.profile()["plugin"] = tree{} }},
	{"unknown point", func(g *configGenerator) { g.section(g.profile(), "plugins")["scoring"] = tree{} }},
	arg("unknown argument", "NodeResourcesFit", "strategy", tree{}),
	arg("unknown argument deep down", "PodTopologySpread", "defaultConstraints",
		[]any{tree{"maxSkew": 1, "topology": "zone"}}),
	set("a number in words", "parallelism", "many"),
	set("a fraction", "podMaxBackoffSeconds", 1.5),
	setIn("a duration in words", "leaderElection", "leaseDuration", "a while"),
	arg("an argument in words", "InterPodAffinity", "hardPodAffinityWeight", "heavy"),
	set("another version", "apiVersion", "kubescheduler.config.k8s.io/v1beta3", "v1"),
	set("another kind", "kind", "KubeSchedulerConfig", "NodeAffinityArgs"),
	arg("arguments of another kind", "NodeAffinity", "kind", "InterPodAffinityArgs"),
	arg("arguments of another version", "NodeAffinity", "apiVersion", "kubescheduler.config.k8s.io/v1beta2"),
	{"a field twice", func(g *configGenerator) {
		g.root["parallelism"] = 3
		g.lines = append(g.lines, "parallelism: 4\n")
	}},
}

// berthFaults are configurations that Berth treats differently from upstream; see configException.
var berthFaults = []fault{
	wrongList("an alpha plugin", "multiPoint", "GangScheduling"),
	{"a negative weight", func(g *configGenerator) {
		g.enable(g.profile(), "score", tree{"name": "ImageLocality", "weight": -1})
	}},
	{"a negative weight at all points", func(g *configGenerator) {
		g.enable(g.profile(), "multiPoint", tree{"name": "ImageLocality", "weight": -1})
	}},
	{"an unknown plugin disabled", func(g *configGenerator) {
		g.section(g.section(g.profile(), "plugins"), "filter")["disabled"] = []any{tree{"name": "NodeFit"}}
	}},
	{"arguments of a stranger", func(g *configGenerator) { g.args("Coscheduling")["x"] = 1 }},
	{"arguments for nothing", func(g *configGenerator) { g.args("NodeName")["x"] = 1 }},
	{"arguments for the queue", func(g *configGenerator) {
		g.args("PrioritySort")["x"] = g.IntN(3)
		all := append(g.root["profiles"].([]any), tree{"schedulerName": "last", "pluginConfig": []any{
			tree{"name": "PrioritySort", "args": tree{"x": 4}},
		}})
		for _, p := range all {
			g.section(p.(tree), "plugins")["queueSort"] = tree{"enabled": []any{tree{"name": "PrioritySort"}}}
		}
		g.root["profiles"] = all
	}},
	set("a backoff of ages", "podMaxBackoffSeconds", int64(math.MaxInt64), int64(9_223_372_037)),
	{"filter without preFilter", func(g *configGenerator) {
		g.section(g.profile(), "plugins")["preFilter"] = tree{"disabled": []any{tree{"name": "*"}}}
	}},
	{"score without preScore", func(g *configGenerator) {
		g.section(g.profile(), "plugins")["preScore"] = tree{"disabled": []any{tree{"name": "TaintToleration"}}}
	}},
	{"wrong arguments of a plugin that is off", func(g *configGenerator) {
		p := g.profile()
		p["plugins"] = tree{"multiPoint": tree{"disabled": []any{tree{"name": "NodeResourcesFit"}}}}
		p["pluginConfig"] = []any{tree{"name": "NodeResourcesFit", "args": tree{"ignoredResources": []any{"a b"}}}}
	}},
	{"twice at all points and at its own", func(g *configGenerator) {
		p := g.profile()
		for range 2 {
			g.enable(p, "multiPoint", tree{"name": "ImageLocality", "weight": 2})
		}
		g.section(p, "plugins")["score"] = tree{"enabled": []any{tree{"name": "ImageLocality"}}}
	}},
}
