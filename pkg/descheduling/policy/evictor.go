package policy

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// CriticalPriority is the lowest priority of a system-critical pod, and so the highest meaningful threshold
// (k8s.io/kubernetes/pkg/apis/scheduling).
const CriticalPriority int32 = 2_000_000_000

const (
	// The values of noEvictionPolicy; empty means Preferred.
	noEvictionPreferred = "Preferred"
	noEvictionMandatory = "Mandatory"
)

// protection is one name that podProtections accepts, and the switch it stands for.
type protection struct {
	name string
	at   func(*Protections) *bool
}

// onByDefault and extra are upstream's names of the protections that are on and off by default.
var (
	onByDefault = []protection{
		{"PodsWithLocalStorage", func(p *Protections) *bool { return &p.LocalStorage }},
		{"SystemCriticalPods", func(p *Protections) *bool { return &p.SystemCritical }},
		{"FailedBarePods", func(p *Protections) *bool { return &p.FailedBare }},
		{"DaemonSetPods", func(p *Protections) *bool { return &p.DaemonSet }},
	}
	extra = []protection{
		{"PodsWithPVC", func(p *Protections) *bool { return &p.PVC }},
		{"PodsWithoutPDB", func(p *Protections) *bool { return &p.WithoutPDB }},
		{"PodsWithResourceClaims", func(p *Protections) *bool { return &p.ResourceClaims }},
	}
)

// evictor reads the arguments of DefaultEvictor. Without any it returns the defaults.
func (r *resolver) evictor(c located) Evictor {
	var in evictorArgs
	r.decode(c, &in)
	at := c.path
	out := Evictor{
		TargetNodes:     r.nodeSelector(in.NodeSelector, at.Child("nodeSelector")),
		Labels:          r.labelSelector(in.LabelSelector, at.Child("labelSelector")),
		NamespaceLabels: r.labelSelector(in.NamespaceLabelSelector, at.Child("namespaceLabelSelector")),
		NodeFit:         in.NodeFit,
		MinReplicas:     in.MinReplicas,
		MinPodAge:       r.minPodAge(&in, at.Child("minPodAge")),
		Protect:         r.protections(&in, at),
		StorageClasses:  r.storageClasses(&in.PodProtections, at.Child("podProtections")),
	}
	if in.MinReplicas == 1 {
		r.warn(at.Child("minReplicas"), "every owner has at least 1; protection begins at 2")
	}
	switch in.NoEvictionPolicy {
	case "", noEvictionPreferred:
	case noEvictionMandatory:
		out.MandatoryNoEviction = true
	default:
		r.Add(at.Child("noEvictionPolicy"), in.NoEvictionPolicy,
			`noEvictionPolicy accepts only ["Preferred" "Mandatory"] values`)
	}
	r.priorityThreshold(in.PriorityThreshold, &out, at.Child("priorityThreshold"))
	return out
}

// minPodAge returns nil if the age is not set.
func (r *resolver) minPodAge(in *evictorArgs, path *field.Path) *time.Duration {
	if in.MinPodAge == nil {
		return nil
	}
	if in.MinPodAge.Duration < 0 {
		r.warn(path, "every pod is older than "+in.MinPodAge.Duration.String())
	}
	return &in.MinPodAge.Duration
}

// priorityThreshold has no effect when critical pods may be evicted: upstream skips it together with their
// protection.
func (r *resolver) priorityThreshold(in *priorityThreshold, out *Evictor, path *field.Path) {
	if in == nil {
		return
	}
	if in.Value != nil && in.Name != "" {
		r.Add(path, strictyaml.Words("value and name"),
			"priority threshold misconfigured, only one of priorityThreshold fields can be set")
	}
	if in.Value != nil && *in.Value > CriticalPriority {
		r.Add(path.Child("value"), *in.Value, "priority threshold can't be greater than 2000000000")
	}
	if !out.Protect.SystemCritical {
		r.warn(path, "system-critical pods are not protected")
		return
	}
	out.PriorityThreshold, out.PriorityClass = in.Value, in.Name
}

// protections reads podProtections, or the older switches when it is empty.
func (r *resolver) protections(in *evictorArgs, path *field.Path) Protections {
	lists, at := in.PodProtections, path.Child("podProtections")
	if len(lists.ExtraEnabled) == 0 && len(lists.DefaultDisabled) == 0 {
		return fromSwitches(in.evictorSwitches)
	}
	if in.evictorSwitches != (evictorSwitches{}) {
		r.Add(at, strictyaml.Words("given together with evict… or ignore… switches"), "cannot use Deprecated fields "+
			"alongside PodProtections.ExtraEnabled or PodProtections.DefaultDisabled")
	}
	out := fromSwitches(evictorSwitches{})
	r.flip(lists.DefaultDisabled, onByDefault, &out, at.Child("defaultDisabled"), "DefaultDisabled")
	r.flip(lists.ExtraEnabled, extra, &out, at.Child("extraEnabled"), "ExtraEnabled")
	return out
}

// fromSwitches translates the older switches. The zero value gives the defaults: local storage, DaemonSets,
// critical priorities and failed bare pods are protected.
func fromSwitches(s evictorSwitches) Protections {
	return Protections{
		LocalStorage:   !s.EvictLocalStoragePods,
		DaemonSet:      !s.EvictDaemonSetPods,
		SystemCritical: !s.EvictSystemCriticalPods,
		FailedBare:     !s.EvictFailedBarePods,
		PVC:            s.IgnorePvcPods,
		WithoutPDB:     s.IgnorePodsWithoutPDB,
	}
}

// flip inverts the switch of every given name. list is upstream's name of the field.
func (r *resolver) flip(given []string, known []protection, out *Protections, path *field.Path, list string) {
	for i, name := range given {
		k := slices.IndexFunc(known, func(p protection) bool { return p.name == name })
		switch {
		case slices.Contains(given[:i], name):
			r.Add(path.Index(i), name, "PodProtections."+list+" contains duplicate entries")
		case k < 0:
			var names []string
			for _, p := range known {
				names = append(names, p.name)
			}
			r.Add(path.Index(i), name, fmt.Sprintf("invalid pod protection policy in %s: %q. Valid options are: %v",
				list, name, names))
		default:
			s := known[k].at(out)
			*s = !*s
		}
	}
}

// storageClasses returns the classes to which the protection of volume claims is limited. They have no effect
// unless that protection is enabled.
func (r *resolver) storageClasses(in *podProtections, path *field.Path) []string {
	if in.Config == nil || in.Config.PodsWithPVC == nil {
		return nil
	}
	at := path.Child("config", "PodsWithPVC")
	if !slices.Contains(in.ExtraEnabled, "PodsWithPVC") {
		r.warn(at, "PodsWithPVC is not in extraEnabled")
		return nil
	}
	var out []string
	for i, class := range in.Config.PodsWithPVC.ProtectedStorageClasses {
		if class.Name == "" {
			r.Add(at.Child("protectedStorageClasses").Index(i).Child("name"), class.Name,
				fmt.Sprintf("PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[%d] name cannot be empty", i))
		}
		out = append(out, class.Name)
	}
	return out
}
