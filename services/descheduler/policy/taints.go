package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (r *resolver) nodeTaints(c located) *NodeTaints {
	var in taintsArgs
	if !r.decode(c, &in) {
		return &NodeTaints{}
	}
	r.taintNames(in.ExcludedTaints, c.path.Child("excludedTaints"))
	r.taintNames(in.IncludedTaints, c.path.Child("includedTaints"))
	if len(in.ExcludedTaints) > 0 && len(in.IncludedTaints) > 0 {
		r.Add(c.path.Child("includedTaints"), in.IncludedTaints, "want this or excludedTaints, not both")
	}
	return &NodeTaints{
		Namespaces:       r.namespaces(in.Namespaces, c.path.Child("namespaces")),
		Labels:           r.labelSelector(in.LabelSelector, c.path.Child("labelSelector")),
		PreferNoSchedule: in.IncludePreferNoSchedule,
		Excluded:         in.ExcludedTaints,
		Included:         in.IncludedTaints,
	}
}

// taintNames refuses what could never match a taint: upstream compares with the key and
// with key=value, and leaves a misspelt entry to be found by its lack of effect.
func (r *resolver) taintNames(names []string, path *field.Path) {
	for i, name := range names {
		key, value, _ := strings.Cut(name, "=")
		wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if len(wrong) > 0 {
			r.Add(path.Index(i), name, "want a taint's key or key=value, without an effect")
		}
	}
}

func (r *resolver) namespaces(in *namespaces, path *field.Path) Namespaces {
	if in == nil {
		return Namespaces{}
	}
	if len(in.Include) > 0 && len(in.Exclude) > 0 {
		r.Add(path.Child("exclude"), in.Exclude, "want this or include, not both")
	}
	r.namespaceNames(in.Include, path.Child("include"))
	r.namespaceNames(in.Exclude, path.Child("exclude"))
	return Namespaces{Include: in.Include, Exclude: in.Exclude}
}

func (r *resolver) namespaceNames(names []string, path *field.Path) {
	for i, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			r.Add(path.Index(i), name, "want the exact name of a namespace, no wildcards")
		}
	}
}
