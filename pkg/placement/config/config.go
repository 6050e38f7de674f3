package config

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// The only version and kind that are accepted. The beta versions were removed upstream long before 1.36.
const (
	apiVersion = "kubescheduler.config.k8s.io/v1"
	kind       = "KubeSchedulerConfiguration"
)

// Configuration is a complete and checked KubeSchedulerConfiguration. It is immutable and may be shared.
type Configuration struct {
	// Profiles holds at least one profile, in file order, with distinct scheduler names, in the engine's form.
	Profiles []placement.ProfileConfig
	// Resolved holds the same profiles in kube-scheduler's terms.
	Resolved []Profile
	// Effective is the configuration as an API object, with every default (see effective). A file of it means the same.
	Effective *schedulerv1.KubeSchedulerConfiguration
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
	// HomeNodesFirst is Berth's own setting of when home nodes are tried first; empty if the file does not say.
	HomeNodesFirst placement.HomePolicy
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
