package config

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// pluginArgs handles the arguments of one plugin.
type pluginArgs struct {
	// fresh returns a new zero value: a pointer to a type of kube-scheduler/config/v1.
	fresh func() runtime.Object
	// fill sets the defaults of what the file left open.
	fill func(args runtime.Object)
	// check records what is not acceptable after fill.
	check func(args runtime.Object, path *field.Path, r *strictyaml.Report)
}

// objectOf constrains P to a pointer to T that is an API object.
type objectOf[T any] interface {
	*T
	runtime.Object
}

// argsOf adapts functions on one type to pluginArgs; fill and check may be nil. P is needed beside T because only
// the pointer implements runtime.Object.
func argsOf[T any, P objectOf[T]](fill func(P), check func(P, *field.Path, *strictyaml.Report)) pluginArgs {
	return pluginArgs{
		fresh: func() runtime.Object { return P(new(T)) },
		fill: func(args runtime.Object) {
			if fill != nil {
				fill(args.(P))
			}
		},
		check: func(args runtime.Object, path *field.Path, r *strictyaml.Report) {
			if check != nil {
				check(args.(P), path, r)
			}
		},
	}
}

// argsByPlugin holds the plugins that take arguments. Arguments for any other plugin are a mistake.
var argsByPlugin = map[string]pluginArgs{
	"DefaultPreemption":               argsOf(fillPreemption, checkPreemption),
	"InterPodAffinity":                argsOf(fillInterPodAffinity, checkInterPodAffinity),
	"NodeResourcesFit":                argsOf(fillFit, checkFit),
	"NodeResourcesBalancedAllocation": argsOf(fillBalanced, checkBalanced),
	"PodTopologySpread":               argsOf(fillSpread, checkSpread),
	"NodeAffinity":                    argsOf[schedulerv1.NodeAffinityArgs](nil, checkNodeAffinity),
	"VolumeBinding":                   argsOf(fillVolumeBinding, checkVolumeBinding),
	"DynamicResources":                argsOf(fillDynamicResources, checkDynamicResources),
}

// resolveArgs decodes, completes and checks the arguments of one profile. The result holds an entry for every
// plugin that takes arguments, whether or not the file names it. Arguments of custom plugins and Berth's own
// settings are in the same list of the file and are read elsewhere (customOf, resolveBerth).
func (k catalogue) resolveArgs(
	given []schedulerv1.PluginConfig, path *field.Path, r *strictyaml.Report,
) map[string]runtime.Object {
	resolved := make(map[string]runtime.Object, len(argsByPlugin))
	seen := map[string]bool{}
	for i, c := range given {
		at := path.Index(i)
		kind, takesArgs := argsByPlugin[c.Name]
		empty := len(c.Args.Raw) == 0 || string(c.Args.Raw) == "null" || string(c.Args.Raw) == "{}"
		if seen[c.Name] {
			r.AddKind(field.ErrorTypeDuplicate, at, c.Name, "given twice; want each plugin once")
		}
		switch {
		case c.Name == berthSettings: // see resolveBerth
		case slices.Contains(k.custom, c.Name): // see customOf
		case slices.Contains(removed, c.Name):
			r.Add(at, c.Name, "removed before "+apiVersion+"; want one of "+k.names())
		case implemented[c.Name] == nil:
			r.AddKind(field.ErrorTypeNotSupported, at, c.Name, "want one of "+k.names()+", or "+berthSettings)
		case !takesArgs && !empty:
			r.AddKind(field.ErrorTypeForbidden, at.Child("args"), c.Name, "takes no arguments; want the entry removed")
		case takesArgs:
			resolved[c.Name] = decodeArgs(c, kind, at.Child("args"), r)
		}
		seen[c.Name] = true
	}
	for name, kind := range argsByPlugin {
		if resolved[name] == nil {
			args := kind.fresh()
			kind.fill(args)
			resolved[name] = args
		}
	}
	return resolved
}

// decodeArgs reads the arguments of one plugin. It fills and checks even if a field cannot be decoded, so that
// further mistakes are found.
func decodeArgs(c schedulerv1.PluginConfig, kind pluginArgs, path *field.Path, r *strictyaml.Report) runtime.Object {
	args := kind.fresh()
	if len(c.Args.Raw) > 0 {
		strictyaml.Decode(c.Args.Raw, args, path, r)
		checkArgsType(c, path, r)
	}
	kind.fill(args)
	kind.check(args, path, r)
	return args
}

// checkArgsType accepts arguments with no apiVersion and kind, or with the right ones.
func checkArgsType(c schedulerv1.PluginConfig, path *field.Path, r *strictyaml.Report) {
	var meta metav1.TypeMeta
	if json.Unmarshal(c.Args.Raw, &meta) != nil {
		return // Decode has reported it
	}
	if meta.APIVersion != "" && meta.APIVersion != apiVersion {
		r.Add(path.Child("apiVersion"), meta.APIVersion, "want "+apiVersion+" or nothing")
	}
	if meta.Kind != "" && meta.Kind != c.Name+"Args" {
		r.Add(path.Child("kind"), meta.Kind, "want "+c.Name+"Args or nothing")
	}
}

// orDefault gives p a value when the file gave none.
func orDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// cpuAndMemory are the resources that are scored, with equal weights, when the file names none.
func cpuAndMemory() []schedulerv1.ResourceSpec {
	return []schedulerv1.ResourceSpec{
		{Name: string(corev1.ResourceCPU), Weight: 1},
		{Name: string(corev1.ResourceMemory), Weight: 1},
	}
}

// fillPreemption sets the percentage 10 and the number 100. Source of this and of the following defaults:
// pkg/scheduler/apis/config/v1/defaults.go.
func fillPreemption(a *schedulerv1.DefaultPreemptionArgs) {
	orDefault(&a.MinCandidateNodesPercentage, 10)
	orDefault(&a.MinCandidateNodesAbsolute, 100)
}

// fillInterPodAffinity sets the default weight of required affinity of other pods, 1.
func fillInterPodAffinity(a *schedulerv1.InterPodAffinityArgs) {
	orDefault(&a.HardPodAffinityWeight, 1)
}

// fillFit sets the strategy LeastAllocated over cpu and memory. A strategy with a type keeps it.
func fillFit(a *schedulerv1.NodeResourcesFitArgs) {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &schedulerv1.ScoringStrategy{Type: schedulerv1.LeastAllocated}
	}
	if len(a.ScoringStrategy.Resources) == 0 {
		a.ScoringStrategy.Resources = cpuAndMemory()
	}
	fillWeights(a.ScoringStrategy.Resources)
}

// fillBalanced sets cpu and memory as the resources to balance.
func fillBalanced(a *schedulerv1.NodeResourcesBalancedAllocationArgs) {
	if len(a.Resources) == 0 {
		a.Resources = cpuAndMemory()
	}
	fillWeights(a.Resources)
}

// fillWeights sets the weight 1 where the file has none or 0.
func fillWeights(rs []schedulerv1.ResourceSpec) {
	for i := range rs {
		if rs[i].Weight == 0 {
			rs[i].Weight = 1
		}
	}
}

// fillSpread sets upstream's own default constraints.
func fillSpread(a *schedulerv1.PodTopologySpreadArgs) {
	if a.DefaultingType == "" {
		a.DefaultingType = schedulerv1.SystemDefaulting
	}
}

// fillVolumeBinding sets the timeout of 10 minutes.
func fillVolumeBinding(a *schedulerv1.VolumeBindingArgs) {
	orDefault(&a.BindTimeoutSeconds, int64(10*time.Minute/time.Second))
}

// fillDynamicResources sets upstream's timeouts: 10 s for a search, 600 s until devices are ready.
func fillDynamicResources(a *schedulerv1.DynamicResourcesArgs) {
	orDefault(&a.FilterTimeout, metav1.Duration{Duration: schedulerv1.DynamicResourcesFilterTimeoutDefault})
	orDefault(&a.BindingTimeout, metav1.Duration{Duration: schedulerv1.DynamicResourcesBindingTimeoutDefault})
}
