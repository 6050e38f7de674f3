package policy

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// CriticalPriority is the least priority of a system-critical pod, and so the highest
// threshold that means anything (k8s.io/kubernetes/pkg/apis/scheduling).
const CriticalPriority int32 = 2_000_000_000

const (
	noEvictionPreferred = "Preferred"
	noEvictionMandatory = "Mandatory"
)

// protection is one name that podProtections knows, and the switch it stands for.
type protection struct {
	name string
	at   func(*Protections) *bool
}

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

func (r *resolver) evictor(c located) Evictor {
	var in evictorArgs
	if !r.decode(c, &in) {
		return Evictor{}
	}
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
		r.Add(at.Child("noEvictionPolicy"), in.NoEvictionPolicy, "want Preferred or Mandatory")
	}
	r.priorityThreshold(in.PriorityThreshold, &out, at.Child("priorityThreshold"))
	return out
}

func (r *resolver) minPodAge(in *evictorArgs, path *field.Path) *time.Duration {
	if in.MinPodAge == nil {
		return nil
	}
	if in.MinPodAge.Duration < 0 {
		r.Add(path, in.MinPodAge.Duration, "want 0s or more")
	}
	return &in.MinPodAge.Duration
}

// priorityThreshold means nothing when critical pods may be evicted: upstream skips it
// together with their protection.
func (r *resolver) priorityThreshold(in *priorityThreshold, out *Evictor, path *field.Path) {
	if in == nil {
		return
	}
	if in.Value != nil && in.Name != "" {
		r.Add(path, strictyaml.Words("value and name"), "want one of the two")
	}
	if in.Value != nil && *in.Value > CriticalPriority {
		r.Add(path.Child("value"), *in.Value, "want 2000000000 or less")
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
		r.Add(at, strictyaml.Words("given together with evict… or ignore… switches"), "want one way or the other")
	}
	out := fromSwitches(evictorSwitches{})
	r.flip(lists.DefaultDisabled, onByDefault, &out, at.Child("defaultDisabled"))
	r.flip(lists.ExtraEnabled, extra, &out, at.Child("extraEnabled"))
	return out
}

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

// flip turns the switch of every name given.
func (r *resolver) flip(given []string, known []protection, out *Protections, path *field.Path) {
	for i, name := range given {
		k := slices.IndexFunc(known, func(p protection) bool { return p.name == name })
		switch {
		case k < 0:
			var names []string
			for _, p := range known {
				names = append(names, p.name)
			}
			r.Add(path.Index(i), name, "want one of "+strings.Join(names, ", "))
		case slices.Contains(given[:i], name):
			r.Add(path.Index(i), name, "given twice; want each protection once")
		default:
			s := known[k].at(out)
			*s = !*s
		}
	}
}

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
			r.Add(at.Child("protectedStorageClasses").Index(i).Child("name"), class.Name, "want the name of a storage class")
		}
		out = append(out, class.Name)
	}
	return out
}
