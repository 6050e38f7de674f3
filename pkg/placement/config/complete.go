package config

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentconfig "k8s.io/component-base/config"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	componentvalidation "k8s.io/component-base/config/validation"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// Defaults of KubeSchedulerConfiguration (pkg/scheduler/apis/config/v1/defaults.go).
const (
	defaultParallelism    int32 = 16
	defaultInitialBackoff       = 1 // seconds
	defaultMaxBackoff           = 10
	defaultContentType          = "application/vnd.kubernetes.protobuf"
	resourceLock                = "leases"
	// maxBackoffSeconds keeps a backoff within the range of time.Duration.
	maxBackoffSeconds = int64((1<<63 - 1) / time.Second)
)

// complete fills in the defaults, records what is not acceptable and builds the result, which is valid only if
// nothing was recorded. The order matters in three places: numbers are filled in before they are compared;
// profiles are resolved before extenders change their arguments; and the profiles' final form is made last, from
// both.
func complete(in *schedulerv1.KubeSchedulerConfiguration, known catalogue, r *strictyaml.Report) *Configuration {
	idle := idleFields(in) // before defaults hide what the file says
	orDefault(&in.Parallelism, defaultParallelism)
	orDefault(&in.PercentageOfNodesToScore, 0)
	orDefault(&in.PodInitialBackoffSeconds, defaultInitialBackoff)
	orDefault(&in.PodMaxBackoffSeconds, defaultMaxBackoff)
	orDefault(&in.EnableProfiling, true)
	orDefault(&in.EnableContentionProfiling, *in.EnableProfiling)
	if len(in.Profiles) == 0 {
		in.Profiles = make([]schedulerv1.KubeSchedulerProfile, 1)
	}
	if len(in.Profiles) == 1 {
		orDefault(&in.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	checkNumbers(in, r)
	checkLeaderElection(in.LeaderElection, r)
	checkExtenders(in.Extenders, r)
	resolved := resolveProfiles(in.Profiles, known, r)
	whole := effective(in, resolved)
	leaveToExtenders(in.Extenders, resolved)
	return &Configuration{
		Profiles:                  toPlacement(in, resolved),
		Resolved:                  resolved,
		Effective:                 whole,
		Warnings:                  warnings(idle, resolved, r.File),
		PodInitialBackoff:         time.Duration(*in.PodInitialBackoffSeconds) * time.Second,
		PodMaxBackoff:             time.Duration(*in.PodMaxBackoffSeconds) * time.Second,
		Parallelism:               *in.Parallelism,
		PercentageOfNodesToScore:  *in.PercentageOfNodesToScore,
		ClientConnection:          completeConnection(in.ClientConnection, r),
		EnableProfiling:           *in.EnableProfiling,
		EnableContentionProfiling: *in.EnableContentionProfiling,
	}
}

// checkNumbers checks the fields of the file that are not about profiles.
func checkNumbers(in *schedulerv1.KubeSchedulerConfiguration, r *strictyaml.Report) {
	if *in.Parallelism <= 0 {
		r.Add(field.NewPath("parallelism"), *in.Parallelism, "want 1 or more")
	}
	checkRange(*in.PercentageOfNodesToScore, 0, maxPercent, field.NewPath("percentageOfNodesToScore"), r)
	initial, longest := *in.PodInitialBackoffSeconds, *in.PodMaxBackoffSeconds
	checkRange(initial, 1, maxBackoffSeconds, field.NewPath("podInitialBackoffSeconds"), r)
	if longest < initial || longest > maxBackoffSeconds {
		r.Add(field.NewPath("podMaxBackoffSeconds"), longest,
			fmt.Sprintf("want podInitialBackoffSeconds (%d) to %d", initial, maxBackoffSeconds))
	}
}

// completeConnection applies the defaults of clientConnection. Rates of 0 stay 0 (no limit), which differs from
// upstream. A negative rate means no limit to client-go, and 0 here.
func completeConnection(in componentv1alpha1.ClientConnectionConfiguration, r *strictyaml.Report) ClientConnection {
	if in.Burst < 0 {
		r.Add(field.NewPath("clientConnection", "burst"), in.Burst, "want 0 (none given) or more")
	}
	if in.ContentType == "" {
		in.ContentType = defaultContentType
	}
	return ClientConnection{
		Kubeconfig:         in.Kubeconfig,
		ContentType:        in.ContentType,
		AcceptContentTypes: in.AcceptContentTypes,
		QPS:                max(in.QPS, 0), // client-go also reads a negative rate as no limit
		Burst:              in.Burst,
	}
}

// checkLeaderElection applies upstream's rules to the section although shards do not use it: a file that
// kube-scheduler refuses should not seem to work here.
func checkLeaderElection(in componentv1alpha1.LeaderElectionConfiguration, r *strictyaml.Report) {
	path := field.NewPath("leaderElection")
	completeLeaderElection(&in)
	if *in.LeaderElect && in.ResourceLock != resourceLock {
		r.Add(path.Child("resourceLock"), in.ResourceLock, "want "+resourceLock)
	}
	internal := componentconfig.LeaderElectionConfiguration{
		LeaderElect:       *in.LeaderElect,
		LeaseDuration:     in.LeaseDuration,
		RenewDeadline:     in.RenewDeadline,
		RetryPeriod:       in.RetryPeriod,
		ResourceLock:      in.ResourceLock,
		ResourceName:      in.ResourceName,
		ResourceNamespace: in.ResourceNamespace,
	}
	for _, e := range componentvalidation.ValidateLeaderElectionConfiguration(&internal, path) {
		r.AddError(path, nil, e)
	}
}

// completeLeaderElection applies the defaults of the section.
func completeLeaderElection(in *componentv1alpha1.LeaderElectionConfiguration) {
	if in.ResourceLock == "" {
		in.ResourceLock = resourceLock
	}
	if in.ResourceName == "" {
		in.ResourceName = schedulerv1.SchedulerDefaultLockObjectName
	}
	if in.ResourceNamespace == "" {
		in.ResourceNamespace = schedulerv1.SchedulerDefaultLockObjectNamespace
	}
	componentv1alpha1.RecommendedDefaultLeaderElectionConfiguration(in)
}

// resolveProfiles resolves all profiles and checks what must hold between them: distinct scheduler names, and the
// same order of the queue, which they share.
func resolveProfiles(in []schedulerv1.KubeSchedulerProfile, known catalogue, r *strictyaml.Report) []Profile {
	out := make([]Profile, 0, len(in))
	seen := map[string]bool{}
	for i := range in {
		path := field.NewPath("profiles").Index(i)
		p := resolveProfile(&in[i], known, path, r)
		at := path.Child("schedulerName")
		if p.SchedulerName == "" {
			r.AddKind(field.ErrorTypeRequired, at, p.SchedulerName, "want a name; the default applies only to a single profile")
		}
		if seen[p.SchedulerName] {
			r.AddKind(field.ErrorTypeDuplicate, at, p.SchedulerName, "given twice; want each name once")
		}
		seen[p.SchedulerName] = true
		if n := queueSorts(in[0].Plugins); i == 0 && n > 1 {
			r.Add(path.Child("plugins", "queueSort", "enabled"), strictyaml.Words(fmt.Sprintf("%d plugins", n)),
				"want at most one: pods are sorted one way")
		}
		if i > 0 && !sameQueueSort(in[0].Plugins, in[i].Plugins) {
			r.Add(path.Child("plugins", "queueSort"), strictyaml.Words("not that of profiles[0]"),
				"want the same in every profile: all share one queue")
		}
		out = append(out, p)
	}
	return out
}

// resolveProfile resolves one profile: its plugins per point, then the checks that need them, then the arguments.
func resolveProfile(
	in *schedulerv1.KubeSchedulerProfile, known catalogue, path *field.Path, r *strictyaml.Report,
) Profile {
	var p Profile
	if in.SchedulerName != nil {
		p.SchedulerName = *in.SchedulerName
	}
	if in.PercentageOfNodesToScore != nil {
		checkRange(*in.PercentageOfNodesToScore, 0, maxPercent, path.Child("percentageOfNodesToScore"), r)
	}
	known.checkPlugins(in.Plugins, path.Child("plugins"), r)
	p.Plugins, p.Order = known.resolvePlugins(in.Plugins)
	checkPoints(p.Plugins, path.Child("plugins"), r)
	p.Args = known.resolveArgs(in.PluginConfig, path.Child("pluginConfig"), r)
	p.Custom = known.customOf(in.PluginConfig, p.Plugins, path.Child("pluginConfig"), r)
	resolveBerth(&p, in.PluginConfig, path.Child("pluginConfig"), r)
	return p
}
