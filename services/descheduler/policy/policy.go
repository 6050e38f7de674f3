package policy

import (
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// The plugins of this version, by their upstream names.
const (
	PluginNodeTaints     = "RemovePodsViolatingNodeTaints"
	PluginDefaultEvictor = "DefaultEvictor"
)

// Supported lists the plugins a policy may name, sorted.
func Supported() []string { return []string{PluginDefaultEvictor, PluginNodeTaints} }

// Policy is a complete and checked DeschedulerPolicy. Immutable.
type Policy struct {
	// Nodes selects the nodes whose pods are looked at; never nil.
	Nodes labels.Selector
	// Limits bound what one cycle may ask for.
	Limits Limits
	// GracePeriodSeconds overrides every evicted pod's own; nil leaves it, 0 kills at once.
	GracePeriodSeconds *int64
	// Profiles run in order.
	Profiles []Profile
	// Warnings are lines about parts of the file that mean nothing here.
	Warnings []string
}

// Limits are counts per cycle; nil is unlimited and 0 means never.
type Limits struct {
	PerNode, PerNamespace, Total *uint
}

// Profile is a list of strategies with the protections they share.
type Profile struct {
	Name string
	// Deschedule runs in order.
	Deschedule []Strategy
	Evictor    Evictor
}

// Strategy is one plugin that picks pods; exactly one of its plugin fields is set.
type Strategy struct {
	// Name is the plugin's, as metrics and messages show it.
	Name       string
	NodeTaints *NodeTaints
}

// NodeTaints are the arguments of RemovePodsViolatingNodeTaints: pods on a node with a
// taint they do not tolerate.
type NodeTaints struct {
	Namespaces Namespaces
	// Labels selects pods; never nil.
	Labels labels.Selector
	// PreferNoSchedule looks at taints of that effect beside NoSchedule.
	PreferNoSchedule bool
	// Excluded and Included name taints as "key" or "key=value"; at most one list has
	// entries. Included nil means all.
	Excluded, Included []string
}

// Namespaces limits by exact name; at most one of the lists has entries.
type Namespaces struct {
	Include, Exclude []string
}

// Has reports whether pods of namespace ns are meant.
func (n Namespaces) Has(ns string) bool {
	if len(n.Include) > 0 {
		return slices.Contains(n.Include, ns)
	}
	return !slices.Contains(n.Exclude, ns)
}

// Evictor are the arguments of DefaultEvictor: which pods must not be evicted.
type Evictor struct {
	// TargetNodes selects the nodes that NodeFit may find; never nil.
	TargetNodes labels.Selector
	// Labels selects pods, NamespaceLabels their namespaces; never nil.
	Labels, NamespaceLabels labels.Selector
	// PriorityThreshold and PriorityClass: pods of at least that priority are protected, on
	// top of the critical ones. At most one is set.
	PriorityThreshold *int32
	PriorityClass     string
	// NodeFit evicts only what fits another node.
	NodeFit bool
	// MinReplicas protects pods whose only owner has fewer; below 2 it protects none.
	MinReplicas uint
	// MinPodAge protects pods that started less than this ago, or not yet; nil is off.
	MinPodAge *time.Duration
	// MandatoryNoEviction makes the annotation prefer-no-eviction binding.
	MandatoryNoEviction bool
	Protect             Protections
	// StorageClasses narrows Protect.PVC to claims of these classes; empty means all.
	StorageClasses []string
}

// Protections says which groups of pods are protected.
type Protections struct {
	LocalStorage, DaemonSet, SystemCritical, FailedBare bool // on unless disabled
	PVC, WithoutPDB, ResourceClaims                     bool // off unless enabled
}

// Kinds lists the kinds of facts the policy decides on: each must have arrived completely
// before a cycle may run. Sorted; pods and nodes always.
func (p *Policy) Kinds() []events.Kind {
	kinds := []events.Kind{events.KindPod, events.KindNode}
	for _, profile := range p.Profiles {
		e := profile.Evictor
		if !e.NamespaceLabels.Empty() {
			kinds = append(kinds, events.KindNamespace)
		}
		if e.PriorityClass != "" {
			kinds = append(kinds, events.KindPriorityClass)
		}
		if e.Protect.WithoutPDB {
			kinds = append(kinds, events.KindDisruptionBudget)
		}
		if e.Protect.PVC && len(e.StorageClasses) > 0 {
			kinds = append(kinds, events.KindVolumeClaim)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Load reads the file at path. The error lists every mistake, one line each.
func Load(path string) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: descheduler policy: %w", path, err)
	}
	return Parse(path, data)
}

// Parse reads a policy from memory; file is what errors call it.
func Parse(file string, data []byte) (*Policy, error) {
	r := &strictyaml.Report{File: file}
	raw := strictyaml.JSON(data, r)
	if raw == nil || !checkType(raw, r) {
		return nil, r.Err()
	}
	var in document
	if !strictyaml.Decode(raw, &in, nil, r) {
		return nil, r.Err()
	}
	out := resolve(&in, r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
