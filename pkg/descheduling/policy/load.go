package policy

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// Load reads the file at path. The error lists every mistake, one line each, or is an *OldVersion. It reads the
// file once; the caller decides when to read it again.
func Load(path string) (*Policy, error) { return load(path, false) }

// LoadStrict is Load for which every warning is a mistake.
func LoadStrict(path string) (*Policy, error) { return load(path, true) }

// load reads a file and parses it. Errors of the file system name the path.
func load(path string, strict bool) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: descheduler policy: %w", path, err)
	}
	return parse(path, data, strict)
}

// Parse reads a policy from memory; file is the name used in errors.
func Parse(file string, data []byte) (*Policy, error) { return parse(file, data, false) }

// ParseStrict is Parse for which every warning is a mistake.
func ParseStrict(file string, data []byte) (*Policy, error) { return parse(file, data, true) }

// parse decodes in two steps, because a document of another version has other fields: its type first, then the
// rest. It returns a Policy or an error, never both.
func parse(file string, data []byte, strict bool) (*Policy, error) {
	r := &resolver{Report: &strictyaml.Report{File: file}, strict: strict}
	raw := strictyaml.JSON(data, r.Report)
	if raw == nil {
		return nil, r.Err()
	}
	if err := r.checkType(raw); err != nil {
		return nil, err
	}
	var in document
	r.decodeEnvelope(raw, &in)
	out := r.policy(&in)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return out, nil
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
		r.Record(m)
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
