package descheduling

import (
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// tree is a YAML document, or a part of one.
type tree = map[string]any

// drawers draw arguments of each strategy that have something to say about a world.
var drawers = map[string]func(source) tree{
	policy.PluginTooManyRestarts: func(s source) tree {
		args := pods(s)
		args["podRestartThreshold"] = s.between(1, 12)
		maybe(s, args, "includingInitContainers", true)
		maybe(s, args, "states", some(s, "Running", "CrashLoopBackOff"))
		return args
	},
	policy.PluginPodLifeTime:  drawLifeTime,
	policy.PluginFailedPods:   drawFailed,
	policy.PluginDuplicates:   drawDuplicates,
	policy.PluginNodeTaints:   drawTaintArgs,
	policy.PluginNodeAffinity: drawNodeAffinityArgs,
	policy.PluginInterPodAntiAffinity: func(s source) tree {
		return pods(s)
	},
	policy.PluginTopologySpread: func(s source) tree {
		args := pods(s)
		maybe(s, args, "constraints", some(s, "DoNotSchedule", "ScheduleAnyway"))
		maybe(s, args, "topologyBalanceNodeFit", s.chance(30))
		return args
	},
	policy.PluginLowNodeUtilization:  drawLow,
	policy.PluginHighNodeUtilization: drawHigh,
}

// maybe sets a value in a quarter of the cases.
func maybe(s source, args tree, key string, value any) {
	if s.chance(25) {
		args[key] = value
	}
}

// some draws one or more of a list.
func some[T any](s source, from ...T) []T {
	var out []T
	for _, i := range s.Perm(len(from))[:s.between(1, len(from))] {
		out = append(out, from[i])
	}
	return out
}

func pods(s source) tree {
	args := tree{}
	switch s.IntN(8) {
	case 0:
		args["namespaces"] = tree{"include": some(s, namespaces...)}
	case 1:
		args["namespaces"] = tree{"exclude": some(s, namespaces...)}
	}
	if s.chance(12) {
		args["labelSelector"] = drawSelector(s)
	}
	return args
}

func drawLifeTime(s source) tree {
	args := pods(s)
	drawn := func(percent int, key string, value any) {
		if s.chance(percent) {
			args[key] = value
		}
	}
	drawn(60, "maxPodLifeTimeSeconds", s.IntN(60)*60)
	drawn(25, "states", some(s, "Running", "Pending", "CrashLoopBackOff", "OOMKilled", "Completed", "Shutdown"))
	drawn(20, "exitCodes", some(s, 0, 1, 137))
	drawn(20, "ownerKinds", tree{pick(s, "include", "exclude"): some(s, "ReplicaSet", "Job", "Second")})
	drawn(20, "includingInitContainers", true)
	drawn(20, "includingEphemeralContainers", true)
	if s.chance(25) || len(args) == 0 {
		condition := tree{"type": pick(s, "Ready", "PodScheduled")}
		maybe(s, condition, "status", pick(s, "True", "False"))
		maybe(s, condition, "reason", "ContainersNotReady")
		maybe(s, condition, "minTimeSinceLastTransitionSeconds", s.IntN(60)*60)
		args["conditions"] = []any{condition}
	}
	for _, criterion := range []string{"maxPodLifeTimeSeconds", "states", "exitCodes", "conditions"} {
		if _, ok := args[criterion]; ok {
			return args
		}
	}
	args["maxPodLifeTimeSeconds"] = s.IntN(60) * 60
	return args
}

func drawFailed(s source) tree {
	args := pods(s)
	if s.chance(80) {
		args["minPodLifetimeSeconds"] = s.IntN(40) * 60
	}
	maybe(s, args, "reasons", some(s, "NodeAffinity", "Shutdown", "OOMKilled", "CrashLoopBackOff", ""))
	maybe(s, args, "exitCodes", some(s, 0, 1, 137))
	maybe(s, args, "includingInitContainers", true)
	maybe(s, args, "excludeOwnerKinds", some(s, "Job", "StatefulSet"))
	return args
}

func drawDuplicates(s source) tree {
	args := pods(s)
	delete(args, "labelSelector")
	maybe(s, args, "excludeOwnerKinds", some(s, "Job", "StatefulSet", "Second"))
	return args
}

func drawTaintArgs(s source) tree {
	args := pods(s)
	maybe(s, args, "includePreferNoSchedule", true)
	switch s.IntN(6) {
	case 0:
		args["excludedTaints"] = some(s, "extra", "dedicated=gpu")
	case 1:
		args["includedTaints"] = some(s, "old", "dedicated=gpu", "dedicated=db", "extra")
	}
	return args
}

func drawNodeAffinityArgs(s source) tree {
	args := pods(s)
	args["nodeAffinityType"] = some(s, policy.RequiredNodeAffinity, policy.PreferredNodeAffinity)
	return args
}

func drawLow(s source) tree {
	args := tree{}
	switch s.IntN(6) {
	case 0:
		args["metricsUtilization"] = tree{"source": "KubernetesMetrics"}
	case 1:
		args["metricsUtilization"] = tree{"source": "Prometheus", "prometheus": tree{"query": "load"}}
		args["thresholds"] = tree{policy.MetricResource: s.between(20, 60)}
		args["targetThresholds"] = tree{policy.MetricResource: s.between(60, 85)}
	}
	if args["thresholds"] == nil {
		low, high := tree{}, tree{}
		for _, name := range some(s, "cpu", "memory", "pods") {
			low[name] = s.between(20, 65)
			high[name] = low[name].(int) + s.IntN(20)
		}
		if s.chance(10) {
			low["example.com/gpu"], high["example.com/gpu"] = 50, 50
		}
		args["thresholds"], args["targetThresholds"] = low, high
	}
	if s.chance(20) {
		args["useDeviationThresholds"] = true
		for _, t := range []string{"thresholds", "targetThresholds"} {
			for name := range args[t].(tree) {
				args[t].(tree)[name] = 7
			}
		}
	}
	if s.chance(15) {
		args["evictionLimits"] = tree{"node": s.between(0, 2)}
	}
	evictable(s, args)
	return args
}

func evictable(s source, args tree) {
	if s.chance(10) {
		args["numberOfNodes"] = s.between(1, 2)
	}
	if s.chance(15) {
		args["evictableNamespaces"] = tree{"exclude": some(s, namespaces...)}
	}
}

func drawHigh(s source) tree {
	thresholds := tree{}
	for _, name := range some(s, "cpu", "memory", "pods") {
		thresholds[name] = s.between(25, 70)
	}
	args := tree{"thresholds": thresholds}
	maybe(s, args, "evictionModes", []any{"OnlyThresholdingResources"})
	evictable(s, args)
	return args
}

func drawEvictor(s source) tree {
	args := tree{}
	drawn := func(percent int, key string, value any) {
		if s.chance(percent) {
			args[key] = value
		}
	}
	drawn(30, "nodeFit", s.chance(80))
	drawn(6, "nodeSelector", "pool=one")
	drawn(6, "labelSelector", drawSelector(s))
	drawn(8, "namespaceLabelSelector", tree{"matchLabels": tree{"side": pick(s, "left", "right")}})
	drawn(8, "minReplicas", s.between(1, 4))
	drawn(8, "minPodAge", pick(s, "10m", "40m"))
	drawn(15, "noEvictionPolicy", pick(s, "Preferred", "Mandatory"))
	if s.chance(12) {
		args["priorityThreshold"] = pick(s, tree{"name": "high"}, tree{"value": s.IntN(400)}, tree{})
	}
	if s.chance(30) {
		for _, name := range []string{
			"evictLocalStoragePods", "evictDaemonSetPods", "evictSystemCriticalPods", "evictFailedBarePods",
			"ignorePvcPods", "ignorePodsWithoutPDB",
		} {
			maybe(s, args, name, true)
		}
		return args
	}
	protections := tree{}
	if s.chance(25) {
		protections["defaultDisabled"] = some(s, "PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods",
			"DaemonSetPods")
	}
	if s.chance(20) {
		extra := some(s, "PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")
		protections["extraEnabled"] = extra
		if s.chance(50) {
			protections["config"] = tree{"PodsWithPVC": tree{"protectedStorageClasses": []any{tree{"name": pick(s,
				"fast", "slow")}}}}
		}
	}
	if len(protections) > 0 {
		args["podProtections"] = protections
	}
	return args
}

// drawPolicy draws a policy with one profile that runs the strategy.
func drawPolicy(s source, strategy string) tree {
	args := drawers[strategy](s)
	configs := []any{tree{"name": strategy, "args": args}}
	if s.chance(75) {
		configs = append(configs, tree{"name": policy.PluginDefaultEvictor, "args": drawEvictor(s)})
	}
	p := tree{
		"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
		"profiles": []any{tree{
			"name": "drawn", "pluginConfig": configs,
			"plugins": tree{pointOf(strategy): tree{"enabled": []any{strategy}}},
		}},
	}
	if s.chance(10) {
		p["nodeSelector"] = "pool=two"
	}
	if s.chance(25) {
		p[pick(s, "maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace",
			"maxNoOfPodsToEvictTotal")] = s.between(0, 4)
	}
	p["metricsProviders"] = []any{
		tree{"source": "KubernetesMetrics"},
		tree{"source": "Prometheus", "prometheus": tree{"url": "http://127.0.0.1:9090"}},
	}
	return p
}

func pointOf(strategy string) string {
	switch strategy {
	case policy.PluginDuplicates, policy.PluginTopologySpread, policy.PluginLowNodeUtilization,
		policy.PluginHighNodeUtilization:
		return "balance"
	default:
		return "deschedule"
	}
}

// text writes a tree as YAML, keys sorted.
func text(t tree) []byte {
	data, err := yaml.Marshal(t)
	if err != nil {
		panic(err)
	}
	return data
}
