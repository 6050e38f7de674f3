package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// failedPodsMinSeconds is upstream's default of minPodLifetimeSeconds.
const failedPodsMinSeconds = 3600

// The accepted values of arguments; sorted.
var (
	restartStates = []string{"CrashLoopBackOff", "Running"}
	lifeStates    = []string{
		"Completed", "ContainerCannotRun", "ContainerCreating", "CrashLoopBackOff", "CreateContainerConfigError",
		"CreateContainerError", "DeadlineExceeded", "ErrImagePull", "Error", "Evicted", "Failed", "ImagePullBackOff",
		"InvalidImageName", "NodeAffinity", "NodeLost", "OOMKilled", "Pending", "PodInitializing", "Running",
		"Shutdown", "StartError", "Succeeded", "UnexpectedAdmissionError", "Unknown",
	}
	spreadConstraints = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
)

// tooManyRestarts, like the readers below it, decodes the arguments of one plugin, checks them in upstream's words
// and fills in the defaults. It returns a value even after mistakes; load then discards it.
func (r *resolver) tooManyRestarts(c located) Args {
	var in restartsArgs
	r.decode(c, &in)
	if in.PodRestartThreshold < 1 {
		r.Add(c.path.Child("podRestartThreshold"), in.PodRestartThreshold,
			"invalid PodsHavingTooManyRestarts threshold; want 1 or more")
	}
	r.states(in.States, restartStates, c.path.Child("states"))
	return &TooManyRestarts{
		Pods: r.pods(&in.podArgs, c.path), Threshold: in.PodRestartThreshold,
		InitContainers: in.IncludingInitContainers, States: in.States,
	}
}

// states checks a list of phases and reasons against those that upstream accepts.
func (r *resolver) states(given, known []string, path *field.Path) {
	for i, s := range given {
		if !slices.Contains(known, s) {
			r.Add(path.Index(i), s, fmt.Sprintf("states must be one of %v", known))
		}
	}
}

// podLifeTime requires at least one criterion, because a pod of any age would match otherwise.
func (r *resolver) podLifeTime(c located) Args {
	var in lifeTimeArgs
	r.decode(c, &in)
	out := &PodLifeTime{
		Pods: r.pods(&in.podArgs, c.path), MaxSeconds: in.MaxPodLifeTimeSeconds, States: in.States,
		ExitCodes: in.ExitCodes, InitContainers: in.IncludingInitContainers,
		EphemeralContainers: in.IncludingEphemeralContainers,
	}
	if k := in.OwnerKinds; k != nil {
		if len(k.Include) > 0 && len(k.Exclude) > 0 {
			r.Add(c.path.Child("ownerKinds"), k.Include, "only one of Include/Exclude ownerKinds can be set")
		}
		out.OwnerKinds = OwnerKinds(*k)
	}
	r.states(in.States, lifeStates, c.path.Child("states"))
	for i, f := range in.Conditions {
		if f == (conditionFilter{}) {
			r.Add(c.path.Child("conditions").Index(i), nil, fmt.Sprintf("conditions[%d]: at least one of type, status, "+
				"reason, or minTimeSinceLastTransitionSeconds must be set", i))
		}
		out.Conditions = append(out.Conditions, PodCondition{
			Type: f.Type, Status: f.Status, Reason: f.Reason, MinSeconds: f.MinTimeSinceLastTransitionSeconds,
		})
	}
	if in.MaxPodLifeTimeSeconds == nil && len(in.States) == 0 && len(in.Conditions) == 0 && len(in.ExitCodes) == 0 {
		r.Add(c.path, nil, "at least one filtering criterion must be specified "+
			"(maxPodLifeTimeSeconds, states, conditions, or exitCodes)")
	}
	return out
}

// failedPods distinguishes a missing minimal age, which is an hour, from 0, which is none.
func (r *resolver) failedPods(c located) Args {
	var in failedArgs
	r.decode(c, &in)
	out := &FailedPods{
		Pods: r.pods(&in.podArgs, c.path), ExcludeOwnerKinds: in.ExcludeOwnerKinds, MinSeconds: failedPodsMinSeconds,
		Reasons: in.Reasons, ExitCodes: in.ExitCodes, InitContainers: in.IncludingInitContainers,
	}
	if in.MinPodLifetimeSeconds != nil {
		out.MinSeconds = *in.MinPodLifetimeSeconds
	}
	return out
}

// duplicates selects pods by namespace only, as upstream does.
func (r *resolver) duplicates(c located) Args {
	var in duplicatesArgs
	r.decode(c, &in)
	return &Duplicates{
		Namespaces:        r.namespaces(in.Namespaces, c.path.Child("namespaces")),
		ExcludeOwnerKinds: in.ExcludeOwnerKinds,
	}
}

// interPodAntiAffinity has no arguments beyond those that select pods.
func (r *resolver) interPodAntiAffinity(c located) Args {
	var in antiAffinityArgs
	r.decode(c, &in)
	return &InterPodAntiAffinity{Pods: r.pods(&in.podArgs, c.path)}
}

// nodeAffinity keeps types that it does not know: upstream ignores them, so they are warnings.
func (r *resolver) nodeAffinity(c located) Args {
	var in nodeAffinityArgs
	r.decode(c, &in)
	at := c.path.Child("nodeAffinityType")
	if len(in.NodeAffinityType) == 0 {
		r.Add(at, nil, "nodeAffinityType needs to be set; want "+RequiredNodeAffinity+" or "+PreferredNodeAffinity)
	}
	for i, t := range in.NodeAffinityType {
		if t != RequiredNodeAffinity && t != PreferredNodeAffinity {
			r.warn(at.Index(i), fmt.Sprintf("%q is neither %s nor %s", t, RequiredNodeAffinity, PreferredNodeAffinity))
		}
	}
	return &NodeAffinity{Pods: r.pods(&in.podArgs, c.path), Types: in.NodeAffinityType}
}

// nodeTaints accepts a list of taints to consider or one of taints to leave out, not both.
func (r *resolver) nodeTaints(c located) Args {
	var in taintsArgs
	r.decode(c, &in)
	r.taintNames(in.ExcludedTaints, c.path.Child("excludedTaints"))
	r.taintNames(in.IncludedTaints, c.path.Child("includedTaints"))
	if len(in.ExcludedTaints) > 0 && len(in.IncludedTaints) > 0 {
		r.Add(c.path.Child("includedTaints"), in.IncludedTaints,
			"either includedTaints or excludedTaints can be set, but not both")
	}
	return &NodeTaints{
		Pods: r.pods(&in.podArgs, c.path), PreferNoSchedule: in.IncludePreferNoSchedule,
		Excluded: in.ExcludedTaints, Included: in.IncludedTaints,
	}
}

// taintNames warns about entries that could never match a taint: entries are compared with the key and with
// key=value.
func (r *resolver) taintNames(names []string, path *field.Path) {
	for i, name := range names {
		key, value, _ := strings.Cut(name, "=")
		wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if len(wrong) > 0 {
			r.warn(path.Index(i), fmt.Sprintf("%q is not a taint's key or key=value, without an effect", name))
		}
	}
}

// topologySpread balances only hard constraints (DoNotSchedule) unless the file names others, and requires a fit
// unless the file disables it.
func (r *resolver) topologySpread(c located) Args {
	var in spreadArgs
	r.decode(c, &in)
	for i, s := range in.Constraints {
		if !slices.Contains(spreadConstraints, s) {
			r.Add(c.path.Child("constraints").Index(i), string(s),
				fmt.Sprintf("constraint %s is not one of %v", s, spreadConstraints))
		}
	}
	out := &TopologySpread{
		Pods: r.pods(&in.podArgs, c.path), Constraints: in.Constraints,
		NodeFit: in.TopologyBalanceNodeFit == nil || *in.TopologyBalanceNodeFit,
	}
	if len(out.Constraints) == 0 {
		out.Constraints = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule}
	}
	return out
}

// pods reads what most strategies have in common; without selectors, all pods.
func (r *resolver) pods(in *podArgs, path *field.Path) Pods {
	return Pods{
		Namespaces: r.namespaces(in.Namespaces, path.Child("namespaces")),
		Labels:     r.labelSelector(in.LabelSelector, path.Child("labelSelector")),
	}
}

// namespaces reads an include or exclude list; both together are a mistake, none means all namespaces.
func (r *resolver) namespaces(in *namespaces, path *field.Path) Namespaces {
	if in == nil {
		return Namespaces{}
	}
	if len(in.Include) > 0 && len(in.Exclude) > 0 {
		r.Add(path, in.Exclude, "only one of Include/Exclude namespaces can be set")
	}
	r.namespaceNames(in.Include, path.Child("include"))
	r.namespaceNames(in.Exclude, path.Child("exclude"))
	return Namespaces{Include: in.Include, Exclude: in.Exclude}
}

// namespaceNames warns about names that no namespace can have: they are compared exactly, so they match nothing.
func (r *resolver) namespaceNames(names []string, path *field.Path) {
	for i, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			r.warn(path.Index(i), fmt.Sprintf("%q is not the name of a namespace; wildcards have no meaning", name))
		}
	}
}
