package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// resolver builds a Policy and collects the mistakes in the file and the parts of it that have no effect. Its
// methods return a usable zero or default value after a mistake, so that the rest of the file is checked as well.
type resolver struct {
	*strictyaml.Report
	// strict makes every warning a mistake.
	strict   bool
	warnings []string
}

// warn records that a part of the file has no effect.
func (r *resolver) warn(path *field.Path, what string) {
	if r.strict {
		r.Add(path, strictyaml.Words("no effect"), what)
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: no effect: %s", r.File, path, what))
}

// nodeSelector parses a selector in the string form, in which upstream's policy selects nodes; empty selects all.
func (r *resolver) nodeSelector(s string, path *field.Path) labels.Selector {
	selector, err := labels.Parse(s)
	if err != nil {
		r.Add(path, s, "want a label selector, as in kubectl's --selector: "+err.Error())
		return labels.Everything()
	}
	return selector
}

// labelSelector treats a missing selector as everything.
func (r *resolver) labelSelector(in *metav1.LabelSelector, path *field.Path) labels.Selector {
	if in == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(in)
	if err != nil {
		r.Add(path, strictyaml.Words("not a selector"),
			fmt.Sprintf("failed to get label selectors from strategy's params: %v", err))
		return labels.Everything()
	}
	return selector
}

// orZero returns the value that an optional field has, or the zero value.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// located is the configuration of one plugin with its position in the file; the zero value stands for a plugin
// without configuration.
type located struct {
	raw  []byte
	path *field.Path
}

// decode reads a plugin's args; without any, args keeps its zero value.
func (r *resolver) decode(c located, args any) {
	if len(c.raw) > 0 {
		strictyaml.Decode(c.raw, args, c.path, r.Report)
	}
}
