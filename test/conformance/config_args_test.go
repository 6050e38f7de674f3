package conformance

// pluginConfigs draws valid arguments for some of the plugins that take them.
func (g *configGenerator) pluginConfigs() []any {
	var list []any
	for _, name := range g.subset(25, pluginsWithArgs) {
		c := tree{"name": name}
		if args := g.validArgs(name); len(args) > 0 || g.chance(50) {
			if g.chance(25) {
				args["apiVersion"], args["kind"] = "kubescheduler.config.k8s.io/v1", name+"Args"
			}
			c["args"] = args
		}
		list = append(list, c)
	}
	return list
}

func (g *configGenerator) validArgs(plugin string) tree {
	args := tree{}
	switch plugin {
	case "DefaultPreemption":
		g.maybe(60, args, "minCandidateNodesPercentage", g.IntN(101))
		g.maybe(60, args, "minCandidateNodesAbsolute", 1+g.IntN(500))
	case "InterPodAffinity":
		g.maybe(60, args, "hardPodAffinityWeight", g.IntN(101))
		g.maybe(40, args, "ignorePreferredTermsOfExistingPods", g.chance(50))
	case "NodeAffinity":
		if g.chance(70) {
			args["addedAffinity"] = g.addedAffinity()
		}
	case "NodeResourcesBalancedAllocation":
		if g.chance(70) {
			args["resources"] = g.resources(1)
		}
	case "NodeResourcesFit":
		g.maybe(30, args, "ignoredResources", []any{"example.com/gpu", "cpu"})
		g.maybe(30, args, "ignoredResourceGroups", []any{"example.com", "vendor.io"})
		if g.chance(60) {
			args["scoringStrategy"] = g.strategy()
		}
	case "PodTopologySpread":
		g.spreadArgs(args)
	case "VolumeBinding":
		g.maybe(60, args, "bindTimeoutSeconds", g.IntN(1000))
	case "DynamicResources":
		g.maybe(50, args, "filterTimeout", draw(g, "0s", "3s", "1m"))
		g.maybe(50, args, "bindingTimeout", draw(g, "1s", "90s", "15m"))
	}
	return args
}

func (g *configGenerator) addedAffinity() tree {
	a := tree{}
	if g.chance(60) {
		a["requiredDuringSchedulingIgnoredDuringExecution"] = tree{"nodeSelectorTerms": []any{g.term()}}
	}
	if g.chance(60) {
		a["preferredDuringSchedulingIgnoredDuringExecution"] = []any{
			tree{"weight": 1 + g.IntN(100), "preference": g.term()},
		}
	}
	return a
}

func (g *configGenerator) term() tree {
	return tree{"matchExpressions": []any{draw(g,
		tree{"key": "disk", "operator": "In", "values": []any{"ssd", "nvme"}},
		tree{"key": "disk", "operator": "Exists"},
		tree{"key": "example.com/cores", "operator": "Gt", "values": []any{"8"}},
	)}}
}

func (g *configGenerator) resources(maxWeight int) []any {
	var list []any
	for _, name := range g.subset(50, []string{"cpu", "memory", "ephemeral-storage", "example.com/gpu"}) {
		r := tree{"name": name}
		g.maybe(70, r, "weight", g.IntN(maxWeight+1)) // 0 means 1
		list = append(list, r)
	}
	return list
}

func (g *configGenerator) strategy() tree {
	s := tree{"type": draw(g, "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")}
	if g.chance(70) {
		s["resources"] = g.resources(100)
	}
	if s["type"] == "RequestedToCapacityRatio" {
		s["requestedToCapacityRatio"] = tree{"shape": g.shape()}
	}
	return s
}

func (g *configGenerator) shape() []any {
	var list []any
	utilization := g.IntN(30)
	for utilization <= 100 {
		list = append(list, tree{"utilization": utilization, "score": g.IntN(11)})
		utilization += 1 + g.IntN(60)
	}
	return list
}

func (g *configGenerator) spreadArgs(args tree) {
	if !g.chance(70) {
		return
	}
	args["defaultingType"] = "List"
	if g.chance(30) {
		args["defaultingType"] = "System"
		return
	}
	var list []any
	for _, key := range g.subset(60, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"}) {
		list = append(list, tree{
			"maxSkew": 1 + g.IntN(5), "topologyKey": key,
			"whenUnsatisfiable": draw(g, "DoNotSchedule", "ScheduleAnyway"),
		})
	}
	args["defaultConstraints"] = list
}
