package policy

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

const (
	apiVersion    = "descheduler/v1alpha2"
	apiVersionOld = "descheduler/v1alpha1"
	kind          = "DeschedulerPolicy"
)

// resolver builds a Policy and collects the mistakes in the file and the parts of it that have no effect.
type resolver struct {
	*strictyaml.Report
	// strict makes every warning a mistake.
	strict   bool
	warnings []string
}

// checkType is called before the document is decoded: another version has other fields. An error ends the reading.
func (r *resolver) checkType(raw []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		r.AddError(nil, "document", err)
		return r.Err()
	}
	if meta.APIVersion == apiVersionOld && meta.Kind == kind {
		return newOldVersion(r.File, raw)
	}
	if meta.APIVersion != apiVersion {
		r.Add(field.NewPath("apiVersion"), meta.APIVersion, "want "+apiVersion)
	}
	if meta.Kind != kind {
		r.Add(field.NewPath("kind"), meta.Kind, "want "+kind)
	}
	if meta.APIVersion != apiVersion || meta.Kind != kind {
		return r.Err()
	}
	return nil
}

// decodeEnvelope reads everything but the plugins' arguments. Upstream ignores unknown keys in it, so they only
// cause warnings.
func (r *resolver) decodeEnvelope(raw []byte, in *document) {
	envelope := &strictyaml.Report{}
	strictyaml.Decode(raw, in, nil, envelope)
	for _, m := range envelope.List() {
		if m.Kind == field.ErrorTypeForbidden && !r.strict {
			r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: %s: no effect: %s", r.File, m.Field, m.Value, m.Accepted))
			continue
		}
		r.Take(m)
	}
}

// policy records what is not acceptable and builds the result, which is valid only if nothing was recorded.
func (r *resolver) policy(in *document) *Policy {
	from := &sources{resolver: r}
	out := &Policy{
		Nodes: r.nodeSelector(orZero(in.NodeSelector), field.NewPath("nodeSelector")),
		Limits: Limits{
			PerNode:      in.MaxNoOfPodsToEvictPerNode,
			PerNamespace: in.MaxNoOfPodsToEvictPerNamespace,
			Total:        in.MaxNoOfPodsToEvictTotal,
		},
		GracePeriodSeconds: in.GracePeriodSeconds,
		FailureEvents:      orZero(in.EvictionFailureEventNotification),
		Metrics:            from.read(in),
		Berth:              r.berth(in.Berth.Raw),
	}
	if in.GracePeriodSeconds != nil && *in.GracePeriodSeconds < 0 {
		r.Add(field.NewPath("gracePeriodSeconds"), *in.GracePeriodSeconds, "want 0 or more seconds")
	}
	if len(in.Profiles) == 0 {
		r.warn(field.NewPath("profiles"), "empty: nothing will be evicted")
	}
	for i := range in.Profiles {
		out.Profiles = append(out.Profiles, r.profile(&in.Profiles[i], field.NewPath("profiles").Index(i)))
	}
	for i := range out.Profiles {
		from.check(&out.Profiles[i], field.NewPath("profiles").Index(i))
	}
	out.Warnings = r.warnings
	return out
}

// warn records that a part of the file has no effect.
func (r *resolver) warn(path *field.Path, what string) {
	if r.strict {
		r.Add(path, strictyaml.Words("no effect"), what)
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: no effect: %s", r.File, path, what))
}

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

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
