package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/berth-scheduler/berth/pkg/placement"
	berthconfig "github.com/berth-scheduler/berth/pkg/placement/config"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

const (
	filesPerLoader = 100
	// manyConfigurations are enough for all that the generator can make. (Measured: the rarest comes once in 250.)
	manyConfigurations = 5000
)

var (
	configurations = flag.Int("configurations", 1000, "how many configuration files to compare")
	configSeed     = flag.Uint64("configseed", 0, "seed of the first configuration file; 0: TEST_SEED")
)

// TestConfigurations: kube-scheduler and Berth accept the same files with the same results, and for the files that
// they refuse they name the same fields for the same kinds of mistakes. configException lists the intended
// differences.
func TestConfigurations(t *testing.T) {
	first := seedtest.First(t, *configSeed)
	t.Logf("first seed %d; replay with -args -configseed=%d -configurations=%d", first, first, *configurations)
	quietUpstream(t)
	loader, seen := newUpstreamLoader(), newConfigTally()
	for i := range uint64(*configurations) {
		if i%filesPerLoader == 0 {
			loader = newUpstreamLoader()
		}
		data, err := newConfigGenerator(first + i).file()
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range compareConfiguration(t.Context(), loader, data, seen) {
			t.Error(problem)
		}
		if t.Failed() {
			t.Fatalf("replay this file with -args -configseed=%d -configurations=1:\n%s", first+i, data)
		}
	}
	t.Log(seen)
	if missing := seen.uncovered(); *configurations >= 1000 && len(missing) > 0 {
		seedtest.Lacks(t, *configSeed, *configurations >= manyConfigurations, "%v", missing)
	}
}

// compareConfiguration returns how the two sides differ over one file.
func compareConfiguration(ctx context.Context, loader *upstreamLoader, data []byte, seen *configTally) []string {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	want := loader.load(ctx, data)
	got, err := berthconfig.Parse("config.yaml", data)
	seen.count(want, err == nil)
	var refused *strictyaml.Mistakes
	if err != nil && !errors.As(err, &refused) {
		return []string{fmt.Sprintf("our error is a %T, want mistakes: %v", err, err)}
	}
	if (want.startErr == nil) != (want.undecodable == nil && len(want.findings) == 0) {
		return []string{fmt.Sprintf("upstream's mistakes %v do not explain its error %v", want.findings, want.startErr)}
	}
	if want.undecodable != nil {
		return compareUndecodable(want.undecodable, refused)
	}
	problems := compareMistakes(want, refused, seen)
	if want.startErr == nil && err == nil {
		problems = append(problems, compareAccepted(want, got)...)
		problems = append(problems, comparePrinted(ctx, loader, want, got)...)
	}
	return problems
}

// compareMistakes compares fields and kinds, leaving out the exceptions.
func compareMistakes(want verdict, refused *strictyaml.Mistakes, seen *configTally) []string {
	ours, theirs := map[mistake]bool{}, map[mistake]bool{}
	for _, f := range want.findings {
		theirs[mistake{normalField(f.Field), f.Kind}] = true
	}
	if refused != nil {
		for _, m := range refused.List {
			ours[mistake{normalField(m.Field), m.Kind}] = true
		}
	}
	var problems []string
	for _, side := range []struct {
		name         string
		these, those map[mistake]bool
	}{{"upstream", theirs, ours}, {"ours", ours, theirs}} {
		for m := range side.these {
			if side.those[m] {
				continue
			}
			if e := exceptionOfMistake(m, &want.file); e != "" {
				seen.exceptions[e]++
				continue
			}
			problems = append(problems, fmt.Sprintf("only %s: %s: %s\nupstream: %v\nours: %v",
				side.name, m.Field, m.Kind, want.findings, refused))
		}
	}
	return problems
}

// normalField spells a path as a file does: upstream has one with a capital letter.
func normalField(path string) string {
	return strings.ReplaceAll(path, ".queueSort.Enabled", ".queueSort.enabled")
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	nestedErrors = regexp.MustCompile(`decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]): (.*)`)
	twice        = regexp.MustCompile(`(line \d+): key ".*" already set in map`)
	wrongType    = regexp.MustCompile(`json: cannot unmarshal .* of type`)
	wrongField   = regexp.MustCompile(`(?:Go struct field \w+\.)([\w.]+) of type`)
)

// compareUndecodable: both refuse. If upstream can read on over unknown fields, we name the
// same ones; of what stops it we find no less.
func compareUndecodable(err error, refused *strictyaml.Mistakes) []string {
	if refused == nil {
		return []string{fmt.Sprintf("we accept what upstream cannot decode: %v", err)}
	}
	text := err.Error()
	if first := refused.List[0].Field; first == "apiVersion" || first == "kind" {
		return nil // read as something else, a file has other mistakes
	}
	if g := twice.FindStringSubmatch(text); g != nil {
		return compareTwice(g[1], refused)
	}
	want := map[string]bool{}
	prefix := ""
	for _, part := range strings.Split(text, ", ") {
		if g := nestedErrors.FindStringSubmatch(part); g != nil {
			prefix = g[1] + ".args."
		}
		for _, g := range unknownField.FindAllStringSubmatch(part, -1) {
			want[prefix+g[1]] = true
		}
	}
	got := map[string]bool{}
	types := false
	for _, m := range refused.List {
		if m.Kind == field.ErrorTypeForbidden && m.Value == "unknown field" {
			got[m.Field] = true
		}
		types = types || m.Kind == field.ErrorTypeTypeInvalid && isNamedIn(m.Field, text)
	}
	switch {
	case wrongType.MatchString(text) && !types:
		return []string{fmt.Sprintf("upstream finds a wrong type, we do not\nupstream: %s\nours: %v", text, refused)}
	case runtime.IsStrictDecodingError(err) && !maps.Equal(want, got):
		return []string{fmt.Sprintf("unknown fields differ: upstream %v, ours %v\nupstream: %s\nours: %v",
			slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), text, refused)}
	}
	return nil
}

// compareTwice checks that a key that is given twice is refused by its line, in addition to other mistakes.
func compareTwice(line string, refused *strictyaml.Mistakes) []string {
	for _, m := range refused.List {
		if m.Field == line {
			return nil
		}
	}
	return []string{fmt.Sprintf("upstream finds a key twice at %s, ours: %v", line, refused)}
}

// isNamedIn reports whether the last part of a path is the field that the decoder stumbled
// over, if it says.
func isNamedIn(path, text string) bool {
	g := wrongField.FindStringSubmatch(text)
	if g == nil {
		return true
	}
	return path[strings.LastIndexByte(path, '.')+1:] == g[1][strings.LastIndexByte(g[1], '.')+1:]
}

// compareAccepted compares what the two sides end up with.
func compareAccepted(want verdict, got *berthconfig.Configuration) []string {
	var problems []string
	check := func(what string, want, got any) {
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
			problems = append(problems, fmt.Sprintf("%s (-upstream +ours):\n%s", what, diff))
		}
	}
	theirs := want.internal
	check("parallelism", theirs.Parallelism, got.Parallelism)
	check("percentageOfNodesToScore", *theirs.PercentageOfNodesToScore, got.PercentageOfNodesToScore)
	check("podInitialBackoffSeconds", time.Duration(theirs.PodInitialBackoffSeconds)*time.Second, got.PodInitialBackoff)
	check("podMaxBackoffSeconds", time.Duration(theirs.PodMaxBackoffSeconds)*time.Second, got.PodMaxBackoff)
	check("enableProfiling", theirs.EnableProfiling, got.EnableProfiling)
	check("enableContentionProfiling", theirs.EnableContentionProfiling, got.EnableContentionProfiling)
	check("clientConnection", expectedConnection(&want), got.ClientConnection)
	if len(theirs.Profiles) != len(got.Profiles) || len(got.Profiles) != len(got.Resolved) {
		return append(problems, fmt.Sprintf("%d profiles upstream, ours %d and %d",
			len(theirs.Profiles), len(got.Profiles), len(got.Resolved)))
	}
	for i, p := range theirs.Profiles {
		lists := want.frameworks[i].ListPlugins()
		check("scheduler name", p.SchedulerName, got.Resolved[i].SchedulerName)
		check("plugins", listsOf(lists), pointsOf(got.Resolved[i].Plugins))
		args, err := v1Args(p.PluginConfig)
		if err != nil {
			problems = append(problems, err.Error())
		}
		mine := maps.Clone(got.Resolved[i].Args)
		maps.DeleteFunc(mine, func(name string, _ runtime.Object) bool { return args[name] == nil })
		check("arguments", args, mine)
		check("the engine's profile", expectedProfile(theirs, &p, lists), engineProfile(got.Profiles[i]))
		if _, err := placement.NewProfile(got.Profiles[i]); err != nil {
			problems = append(problems, fmt.Sprintf("the engine does not take the profile: %v", err))
		}
	}
	return problems
}

// expectedConnection: a file without limits, or with a negative one, means no limit (freeClient).
func expectedConnection(want *verdict) berthconfig.ClientConnection {
	c := want.internal.ClientConnection
	out := berthconfig.ClientConnection{
		Kubeconfig: c.Kubeconfig, ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes,
	}
	if want.file.ClientConnection.QPS != 0 {
		out.QPS = max(c.QPS, 0)
	}
	if want.file.ClientConnection.Burst != 0 {
		out.Burst = c.Burst
	}
	return out
}

// pluginAt is a plugin at a point; weights count where there are scores.
type pluginAt struct {
	Name   string
	Weight int32
}

func listsOf(p *config.Plugins) map[berthconfig.Point][]pluginAt {
	lists := map[berthconfig.Point][]pluginAt{}
	for at, set := range pluginSets(p) {
		for _, e := range set.Enabled {
			lists[at] = append(lists[at], pluginAt{e.Name, e.Weight})
		}
	}
	return lists
}

func pointsOf(points map[berthconfig.Point][]berthconfig.EnabledPlugin) map[berthconfig.Point][]pluginAt {
	lists := map[berthconfig.Point][]pluginAt{}
	for at, enabled := range points {
		for _, e := range enabled {
			p := pluginAt{Name: e.Name}
			if at == berthconfig.Score || at == "placementScore" {
				p.Weight = e.Weight
			}
			lists[at] = append(lists[at], p)
		}
	}
	return lists
}

// v1Args are upstream's arguments by plugin, of those that have a type.
func v1Args(configs []config.PluginConfig) (map[string]runtime.Object, error) {
	out := map[string]runtime.Object{}
	for _, c := range configs {
		if _, unknown := c.Args.(*runtime.Unknown); unknown || c.Args == nil {
			continue
		}
		args, err := scheme.Scheme.ConvertToVersion(c.Args, schedulerv1.SchemeGroupVersion)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", c.Name, err)
		}
		out[c.Name] = args
	}
	return out, nil
}

// enginePart is the part of a profile that decides about nodes.
type enginePart struct {
	Percentage    int32
	Filters       []string
	Narrows       []string // sorted: their order changes nothing
	Weights       map[string]int32
	SchedulerName string
}

// expectedProfile is the profile that the engine should get according to upstream's lists.
func expectedProfile(
	c *config.KubeSchedulerConfiguration, p *config.KubeSchedulerProfile, lists *config.Plugins,
) enginePart {
	part := enginePart{
		SchedulerName: p.SchedulerName,
		Percentage:    *c.PercentageOfNodesToScore,
		Weights:       map[string]int32{},
	}
	if own := p.PercentageOfNodesToScore; own != nil {
		part.Percentage = *own
	}
	for _, e := range lists.Filter.Enabled {
		part.Filters = append(part.Filters, e.Name)
	}
	for _, e := range lists.PreFilter.Enabled {
		part.Narrows = append(part.Narrows, e.Name)
	}
	slices.Sort(part.Narrows)
	for _, e := range lists.Score.Enabled {
		part.Weights[e.Name] = e.Weight
	}
	return part
}

func engineProfile(p placement.ProfileConfig) enginePart {
	part := enginePart{
		SchedulerName: p.SchedulerName, Percentage: p.PercentageOfNodesToScore,
		Weights: map[string]int32{},
	}
	for _, c := range p.Plugins {
		if c.Points&placement.Filtering != 0 {
			part.Filters = append(part.Filters, c.Name)
		}
		if c.Points&placement.Narrowing != 0 {
			part.Narrows = append(part.Narrows, c.Name)
		}
		if c.Points&placement.Scoring != 0 {
			part.Weights[c.Name] = c.Weight
		}
	}
	slices.Sort(part.Narrows)
	return part
}
