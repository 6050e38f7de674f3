package policy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// onlyThresholdingResources is the only eviction mode of HighNodeUtilization.
const onlyThresholdingResources = "OnlyThresholdingResources"

// lowUtilization reads the arguments of LowNodeUtilization. Both sets of thresholds must name the same resources,
// and a Prometheus source must use MetricResource alone.
func (r *resolver) lowUtilization(c located) Args {
	var in lowUtilizationArgs
	r.decode(c, &in)
	r.thresholds(in.Thresholds, "thresholds config is not valid: ", c.path.Child("thresholds"))
	r.thresholds(in.TargetThresholds, "targetThresholds config is not valid: ", c.path.Child("targetThresholds"))
	r.compareThresholds(&in, c.path)
	out := &LowUtilization{
		Thresholds: in.Thresholds, Targets: in.TargetThresholds, Deviation: in.UseDeviationThresholds,
		NumberOfNodes:     in.NumberOfNodes,
		ExcludeNamespaces: r.evictableNamespaces(in.EvictableNamespaces, c.path.Child("evictableNamespaces")),
	}
	if in.EvictionLimits != nil {
		out.NodeLimit = in.EvictionLimits.Node
	}
	if in.MetricsUtilization != nil {
		r.source(in.MetricsUtilization, out, c.path.Child("metricsUtilization"))
	}
	return out
}

// highUtilization reads the arguments of HighNodeUtilization, which always measures requests.
func (r *resolver) highUtilization(c located) Args {
	var in highUtilizationArgs
	r.decode(c, &in)
	r.thresholds(in.Thresholds, "", c.path.Child("thresholds"))
	for i, mode := range in.EvictionModes {
		if mode != onlyThresholdingResources {
			r.Add(c.path.Child("evictionModes").Index(i), mode,
				fmt.Sprintf("invalid eviction mode %s; want %s", mode, onlyThresholdingResources))
		}
	}
	return &HighUtilization{
		Thresholds: in.Thresholds, NumberOfNodes: in.NumberOfNodes,
		OnlyThresholdResources: slices.Contains(in.EvictionModes, onlyThresholdingResources),
		ExcludeNamespaces:      r.evictableNamespaces(in.EvictableNamespaces, c.path.Child("evictableNamespaces")),
	}
}

// thresholds checks one set of percentages. Names are visited in order, so that messages are, too.
func (r *resolver) thresholds(in Thresholds, prefix string, path *field.Path) {
	if len(in) == 0 {
		r.Add(path, nil, prefix+"no resource threshold is configured")
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if percent := in[name]; percent < 0 || percent > 100 {
			r.Add(path.Key(name), percent, prefix+fmt.Sprintf("%s threshold not in [0, 100] range", name))
		}
	}
}

// compareThresholds checks two sets that are valid on their own. Upstream stops at the first mistake, in the random
// order of a map; here all of them are reported.
func (r *resolver) compareThresholds(in *lowUtilizationArgs, path *field.Path) {
	if len(in.Thresholds) == 0 || len(in.TargetThresholds) == 0 {
		return
	}
	at := path.Child("targetThresholds")
	names, targets := slices.Sorted(maps.Keys(in.Thresholds)), slices.Sorted(maps.Keys(in.TargetThresholds))
	if !slices.Equal(names, targets) {
		r.Add(at, targets, "thresholds and targetThresholds configured different resources")
	}
	for _, name := range names {
		target, both := in.TargetThresholds[name]
		if both && !in.UseDeviationThresholds && in.Thresholds[name] > target {
			r.Add(at.Key(name), target,
				fmt.Sprintf("thresholds' %s percentage is greater than targetThresholds'", name))
		}
	}
}

// evictableNamespaces may only exclude: every pod counts as usage.
func (r *resolver) evictableNamespaces(in *namespaces, path *field.Path) []string {
	if in == nil {
		return nil
	}
	if len(in.Include) > 0 {
		r.Add(path.Child("include"), in.Include, "only Exclude namespaces can be set, inclusion is not supported")
	}
	r.namespaceNames(in.Exclude, path.Child("exclude"))
	return in.Exclude
}

// source reads the source of usage. metricsServer is the older spelling of KubernetesMetrics.
func (r *resolver) source(in *metricsUtilization, out *LowUtilization, path *field.Path) {
	out.Source = in.Source
	at := path.Child("source")
	switch in.Source {
	case KubernetesMetrics:
		if in.MetricsServer {
			r.Add(path.Child("metricsServer"), true,
				fmt.Sprintf("it is not allowed to set both %q source and metricsServer", KubernetesMetrics))
		}
		if in.Prometheus != nil {
			r.Add(path.Child("prometheus"), nil, fmt.Sprintf(
				"prometheus configuration is not allowed to set when source is set to %q", KubernetesMetrics))
		}
	case PrometheusMetrics:
		if in.Prometheus == nil || in.Prometheus.Query == "" {
			r.Add(path.Child("prometheus", "query"), "",
				fmt.Sprintf("prometheus query is required when metrics source is set to %q", PrometheusMetrics))
			return
		}
		out.Query = in.Prometheus.Query
		r.metricResource(out.Thresholds, "thresholds", at)
		r.metricResource(out.Targets, "targetThresholds", at)
	case "":
		if !in.MetricsServer {
			r.Add(at, "", "metrics source is empty; want KubernetesMetrics or Prometheus")
		}
	default:
		if !in.MetricsServer {
			r.Add(at, string(in.Source), "unrecognized metrics source; want KubernetesMetrics or Prometheus")
		}
	}
	// Upstream evaluates metricsServer before the source.
	if in.MetricsServer {
		out.Source = KubernetesMetrics
	}
}

// metricResource requires that thresholds name MetricResource and nothing else: a query gives one value per node.
func (r *resolver) metricResource(in Thresholds, name string, path *field.Path) {
	if _, ok := in[MetricResource]; !ok || len(in) != 1 {
		r.Add(path, string(PrometheusMetrics), fmt.Sprintf("%s are expected to specify a single instance of %q resource, "+
			"got %v instead", name, MetricResource, slices.Sorted(maps.Keys(in))))
	}
}
