package config

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// Load reads the file at path. The error lists every mistake, one line each; it is a *strictyaml.Mistakes unless
// the file cannot be read. custom names the plugins that are compiled into this program in addition to
// kube-scheduler's own.
func Load(path string, custom ...string) (*Configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: scheduler configuration: %w", path, err)
	}
	return Parse(path, data, custom...)
}

// Parse is Load for a configuration in memory; file is the name used in errors. Unknown fields are mistakes.
func Parse(file string, data []byte, custom ...string) (*Configuration, error) {
	r := &strictyaml.Report{File: file}
	var in schedulerv1.KubeSchedulerConfiguration
	raw := strictyaml.JSON(data, r)
	if raw == nil {
		return nil, r.Err()
	}
	if !checkType(raw, r) {
		return nil, r.Err()
	}
	strictyaml.Decode(raw, &in, nil, r)
	out := complete(&in, catalogue{custom}, r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// Default returns the configuration of an empty file: one profile, default-scheduler.
func Default() *Configuration {
	return complete(&schedulerv1.KubeSchedulerConfiguration{}, catalogue{}, &strictyaml.Report{})
}

// checkType is called before the document is decoded: errors about fields of another kind or version would only be
// noise.
func checkType(raw []byte, r *strictyaml.Report) bool {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		r.AddError(nil, "document", err)
		return false
	}
	if meta.APIVersion != apiVersion {
		r.Add(field.NewPath("apiVersion"), meta.APIVersion, "want "+apiVersion)
	}
	if meta.Kind != kind {
		r.Add(field.NewPath("kind"), meta.Kind, "want "+kind)
	}
	return meta.APIVersion == apiVersion && meta.Kind == kind
}
