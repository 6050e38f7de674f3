package config

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

const (
	apiVersion = "kubescheduler.config.k8s.io/v1"
	kind       = "KubeSchedulerConfiguration"
)

// Configuration is a complete and checked KubeSchedulerConfiguration. Immutable.
type Configuration struct {
	// Profiles holds at least one profile, in file order, with distinct scheduler names, in the engine's form.
	Profiles []placement.ProfileConfig
	// Resolved holds the same profiles in kube-scheduler's terms.
	Resolved []Profile
	// PodInitialBackoff and PodMaxBackoff are the shortest and the longest wait of a pod after failed attempts; the
	// longest is never less than the shortest. Defaults 1 s and 10 s.
	PodInitialBackoff, PodMaxBackoff time.Duration
	// Parallelism is how many goroutines one decision may use, at least 1. Default 16.
	Parallelism int32
	// PercentageOfNodesToScore is 0 to 100, default 0, which means all nodes. It applies to profiles without a
	// value of their own; Profiles already reflects it.
	PercentageOfNodesToScore int32
	// ClientConnection configures how the services connect to the API server.
	ClientConnection ClientConnection
	// EnableProfiling and EnableContentionProfiling default to true.
	EnableProfiling, EnableContentionProfiling bool
	// Warnings holds one line for each setting of the file that has no effect.
	Warnings []string
}

// Profile is one profile as kube-scheduler would run it.
type Profile struct {
	SchedulerName string
	// Plugins holds those enabled at each extension point, in the order in which they run.
	Plugins map[Point][]EnabledPlugin
	// Order lists every plugin in Plugins once: those of multiPoint in its order, then the others as the points
	// name them.
	Order []string
	// Args has an entry for every plugin of kube-scheduler's that takes arguments, whether or not it is enabled: a
	// pointer to a type of kube-scheduler/config/v1, complete.
	Args map[string]runtime.Object
	// Preemption is Berth's own configuration of preemption, complete.
	Preemption placement.PreemptionConfig
	// Custom holds the plugins in Plugins that are not kube-scheduler's own; nil for none.
	Custom *placement.Custom
}

// ClientConnection defines how to connect to the API server.
type ClientConnection struct {
	// Kubeconfig is a path; empty means in-cluster credentials or a flag.
	Kubeconfig string
	// ContentType and AcceptContentTypes are media types; the first defaults to protobuf.
	ContentType, AcceptContentTypes string
	// QPS and Burst limit requests per second on the client's side; QPS 0 means no limit.
	QPS   float32
	Burst int32
}

// Load reads the file at path. The error lists every mistake, one line each. custom names the plugins that are
// compiled into this program in addition to kube-scheduler's own.
func Load(path string, custom ...string) (*Configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: scheduler configuration: %w", path, err)
	}
	return Parse(path, data, custom...)
}

// Parse is Load for a configuration in memory; file is the name used in errors.
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
