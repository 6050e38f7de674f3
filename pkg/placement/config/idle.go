package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// idleField is a field that the file sets and that has no effect, or only with custom plugins.
type idleField struct {
	path *field.Path
	// why is the second half of the warning.
	why string
	// custom means that the field has its effect on custom plugins.
	custom bool
}

// idleFields returns the fields without effect that the file sets, whatever their values. Fields of Berth's own and
// those that are refused are not among them.
func idleFields(in *schedulerv1.KubeSchedulerConfiguration) []idleField {
	connection := field.NewPath("clientConnection")
	const protobuf = "requests are protobuf"
	var found []idleField
	for _, f := range []struct {
		set bool
		idleField
	}{
		{in.Parallelism != nil, idleField{
			path: field.NewPath("parallelism"), custom: true,
			why: "a shard decides on one processor, and several shards decide at once (--shards)",
		}},
		{in.LeaderElection != componentv1alpha1.LeaderElectionConfiguration{}, idleField{
			path: field.NewPath("leaderElection"),
			why:  "shards and binders are all active, and the queue and the descheduler elect their leaders in etcd",
		}},
		{in.ClientConnection.ContentType != "", idleField{path: connection.Child("contentType"), why: protobuf}},
		{in.ClientConnection.AcceptContentTypes != "", idleField{
			path: connection.Child("acceptContentTypes"), why: protobuf,
		}},
		{in.EnableProfiling != nil, idleField{
			path: field.NewPath("enableProfiling"), why: "profiles are served with --profiling, and not without",
		}},
		{in.EnableContentionProfiling != nil, idleField{
			path: field.NewPath("enableContentionProfiling"), why: "blocking is not profiled",
		}},
		{in.DelayCacheUntilActive, idleField{
			path: field.NewPath("delayCacheUntilActive"), why: "every replica is active or follows the log",
		}},
	} {
		if f.set {
			found = append(found, f.idleField)
		}
	}
	return append(found, idleArgs(in.Profiles)...)
}

// idleArgs returns the fields without effect in the arguments of plugins.
func idleArgs(profiles []schedulerv1.KubeSchedulerProfile) []idleField {
	var found []idleField
	for i, p := range profiles {
		for j, c := range p.PluginConfig {
			var args schedulerv1.DynamicResourcesArgs
			if c.Name != names.DynamicResources || json.Unmarshal(c.Args.Raw, &args) != nil || args.FilterTimeout == nil {
				continue
			}
			found = append(found, idleField{
				path: field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("args", "filterTimeout"),
				why:  "a search for devices is bounded by its steps instead, so that a decision can be made again",
			})
		}
	}
	return found
}

// warnings returns a line for each field without effect. file is the name used in the lines.
func warnings(idle []idleField, profiles []Profile, file string) []string {
	custom := slices.ContainsFunc(profiles, func(p Profile) bool { return p.Custom != nil })
	var lines []string
	for _, f := range idle {
		if !f.custom || !custom {
			lines = append(lines, fmt.Sprintf("%s: %s: no effect: %s", file, f.path, f.why))
		}
	}
	return lines
}
