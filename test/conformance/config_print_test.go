package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"

	berthconfig "github.com/berth-scheduler/berth/pkg/placement/config"
)

// comparePrinted checks what `berth config print` writes of a file that both sides accept: Berth reads it as the file,
// kube-scheduler reads it as the file, and what kube-scheduler writes of it (--write-config-to) Berth reads as the
// file.
func comparePrinted(
	ctx context.Context, loader *upstreamLoader, want verdict, got *berthconfig.Configuration,
) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	printed, err := yaml.Marshal(got.Effective)
	if err != nil {
		return []string{err.Error()}
	}
	again, err := berthconfig.Parse("printed.yaml", printed)
	if err != nil {
		add("Berth refuses what it printed: %v\n%s", err, printed)
		return problems
	}
	if diff := cmp.Diff(got.Effective, again.Effective); diff != "" {
		add("printed again (-first +second):\n%s", diff)
	}
	problems = append(problems, compareRead("printed", got, again)...)
	theirs := loader.load(ctx, printed)
	if theirs.startErr != nil {
		add("kube-scheduler refuses what was printed: %v\n%s", theirs.startErr, printed)
		return problems
	}
	problems = append(problems, compareUnderstood(want, theirs)...)
	written, err := loader.write(ctx, theirs.internal)
	if err != nil {
		add("kube-scheduler cannot write it: %v", err)
		return problems
	}
	back, err := berthconfig.Parse("written.yaml", written)
	if err != nil {
		add("Berth refuses what kube-scheduler has written: %v\n%s", err, written)
		return problems
	}
	return append(problems, compareRead("written by kube-scheduler", got, back)...)
}

// compareRead compares what Berth has read twice. kube-scheduler writes its own defaults where Berth has none, so
// limits of connections and of preemption are not compared.
func compareRead(what string, first, second *berthconfig.Configuration) (problems []string) {
	check := func(field string, a, b any) {
		if diff := cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
			problems = append(problems, fmt.Sprintf("%s, %s (-file +%s):\n%s", what, field, what, diff))
		}
	}
	check("parallelism", first.Parallelism, second.Parallelism)
	check("percentageOfNodesToScore", first.PercentageOfNodesToScore, second.PercentageOfNodesToScore)
	check("podInitialBackoffSeconds", first.PodInitialBackoff, second.PodInitialBackoff)
	check("podMaxBackoffSeconds", first.PodMaxBackoff, second.PodMaxBackoff)
	check("profiles", len(first.Profiles), len(second.Profiles))
	for i := range min(len(first.Profiles), len(second.Profiles)) {
		check("the engine's profile", engineProfile(first.Profiles[i]), engineProfile(second.Profiles[i]))
		check("extenders", first.Profiles[i].Extenders, second.Profiles[i].Extenders)
		check("plugins", pointsOf(first.Resolved[i].Plugins), pointsOf(second.Resolved[i].Plugins))
		enabled := first.Resolved[i]
		check("arguments", enabledArgs(first.Resolved[i], enabled), enabledArgs(second.Resolved[i], enabled))
	}
	return problems
}

// enabledArgs are the arguments of the plugins that a profile enables: kube-scheduler writes no others.
func enabledArgs(of, enabled berthconfig.Profile) map[string]runtime.Object {
	args := maps.Clone(of.Args)
	maps.DeleteFunc(args, func(name string, _ runtime.Object) bool {
		for _, list := range enabled.Plugins {
			for _, e := range list {
				if e.Name == name {
					return false
				}
			}
		}
		return true
	})
	return args
}

// compareUnderstood compares what kube-scheduler has understood of a file and of what Berth printed of it.
func compareUnderstood(want, got verdict) (problems []string) {
	check := func(field string, a, b any) {
		if diff := cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
			problems = append(problems, fmt.Sprintf("kube-scheduler, %s (-file +printed):\n%s", field, diff))
		}
	}
	a, b := want.internal.DeepCopy(), got.internal.DeepCopy()
	a.Profiles, b.Profiles = nil, nil
	check("the file", a, b)
	check("profiles", len(want.frameworks), len(got.frameworks))
	for i := range min(len(want.frameworks), len(got.frameworks)) {
		check("plugins", listsOf(want.frameworks[i].ListPlugins()), listsOf(got.frameworks[i].ListPlugins()))
		check("nodes", want.internal.Profiles[i].PercentageOfNodesToScore, got.internal.Profiles[i].PercentageOfNodesToScore)
		first, err := v1Args(want.internal.Profiles[i].PluginConfig)
		second, otherErr := v1Args(got.internal.Profiles[i].PluginConfig)
		check("errors", err, otherErr)
		lists := listsOf(want.frameworks[i].ListPlugins())
		check("arguments", argsOfEnabled(first, lists), argsOfEnabled(second, lists))
	}
	return problems
}

// argsOfEnabled are the arguments of the plugins in the lists. A plugin that a profile disables reads none.
func argsOfEnabled(
	args map[string]runtime.Object, lists map[berthconfig.Point][]pluginAt,
) map[string]runtime.Object {
	enabled := map[string]runtime.Object{}
	for _, list := range lists {
		for _, at := range list {
			if found, ok := args[at.Name]; ok {
				enabled[at.Name] = found
			}
		}
	}
	return enabled
}

// write returns what kube-scheduler writes with --write-config-to (LogOrWriteConfig in cmd/kube-scheduler/app/options).
func (l *upstreamLoader) write(ctx context.Context, c *config.KubeSchedulerConfiguration) ([]byte, error) {
	out := c.DeepCopy()
	out.Profiles = nil
	capture := frameworkruntime.WithCaptureProfile(func(p config.KubeSchedulerProfile) {
		out.Profiles = append(out.Profiles, p)
	})
	capturing := upstreamLoader{append(l.options[:len(l.options):len(l.options)], capture)}
	for i := range c.Profiles {
		if _, err := capturing.framework(ctx, c.Profiles[i].DeepCopy()); err != nil {
			return nil, err
		}
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	var text bytes.Buffer
	err := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(out, &text)
	return text.Bytes(), err
}
