//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// configHead begins the configurations below. Neither program reaches the API server.
const configHead = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// printedConfigs are configurations by name, each after configHead and a clientConnection.
var printedConfigs = map[string]string{
	"defaults": ``,
	"profiles": `parallelism: 8
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  percentageOfNodesToScore: 50
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 2}, {name: memory, weight: 1}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7}
  - name: VolumeBinding
    args: {bindTimeoutSeconds: 30}
  plugins:
    score:
      disabled: [{name: ImageLocality}, {name: NodeResourcesBalancedAllocation}]
      enabled: [{name: TaintToleration, weight: 9}]
    multiPoint:
      disabled: [{name: NodeVolumeLimits}]
`,
	"extenders": `extenders:
- urlPrefix: http://127.0.0.1:1/x
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 3
  nodeCacheCapable: true
  httpTimeout: 2s
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
`,
	"points": `profiles:
- schedulerName: points
  plugins:
    multiPoint: {disabled: [{name: "*"}]}
    queueSort: {enabled: [{name: PrioritySort}]}
    filter: {enabled: [{name: NodeResourcesFit}, {name: NodeName}]}
    preFilter: {enabled: [{name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeResourcesFit, weight: 5}]}
    bind: {enabled: [{name: DefaultBinder}]}
`,
}

// printedDifferences are the fields that the two programs print differently, with the reason.
var printedDifferences = []printedDifference{
	{regexp.MustCompile(`^clientConnection\.(qps|burst)$`), "Berth has no limit of its own: 0 where the file has none"},
	{regexp.MustCompile(`\.pluginConfig\[Berth\]\.`), "settings that kube-scheduler does not have, and ignores"},
	{
		regexp.MustCompile(`\.pluginConfig\[DefaultPreemption\]\.`),
		"Berth looks at all candidates if the file sets no limit",
	},
	{
		regexp.MustCompile(`\.pluginConfig\[NodeResourcesFit\]\.args\.ignoredResources\[`),
		"kube-scheduler copies the extenders' managedResources there",
	},
}

type printedDifference struct {
	field *regexp.Regexp
	why   string
}

// TestPrintedConfiguration: `berth config print` prints what `kube-scheduler --write-config-to` writes of the same
// file, field by field, but for differences with a reason. kube-scheduler reads what Berth has printed as that, and
// Berth what kube-scheduler has written. Berth prints the plugins of each point, kube-scheduler those of the file.
func TestPrintedConfiguration(t *testing.T) {
	t.Parallel()
	used := map[string]int{}
	for name, text := range printedConfigs {
		p := printing{t, t.TempDir(), name}
		kubeconfig := p.file("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: none\n"+
			"clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: none, user: {}}]\n"+
			"contexts: [{name: none, context: {cluster: none, user: none}}]\n")
		given := p.file("given.yaml", configHead+"clientConnection: {kubeconfig: '"+kubeconfig+"'}\n"+text)
		written := p.written(given)
		printed := p.printed(given)
		ours, theirs := p.read(printed), p.read(written)
		p.compare("kube-scheduler (-) and Berth (+)", theirs.fields, ours.fields, used)
		p.comparePlugins(theirs, ours)

		again := p.read(p.printed(written))
		p.compare("printed (-) and printed of what kube-scheduler wrote (+)", ours.fields, again.fields, used)
		if diff := cmp.Diff(ours.plugins, again.plugins); diff != "" {
			t.Errorf("%s: plugins printed (-) and printed of what kube-scheduler wrote (+):\n%s", name, diff)
		}
		back := p.read(p.written(printed))
		p.compare("written (-) and written of what Berth printed (+)", theirs.fields, back.fields, used)
		if diff := cmp.Diff(ours.plugins, back.plugins); diff != "" {
			t.Errorf("%s: plugins printed (-) and written of that (+):\n%s", name, diff)
		}
	}
	for _, d := range printedDifferences {
		if used[d.field.String()] == 0 {
			t.Errorf("no field matches %s any more (%s)", d.field, d.why)
		}
	}
	t.Log(used)
}

// printing is one configuration, in a folder of its own.
type printing struct {
	*testing.T
	dir, name string
}

func (p printing) file(name, text string) string {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
	return path
}

// written returns a file with what kube-scheduler writes of a file.
func (p printing) written(given string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), placedWithin)
	defer cancel()
	path := strings.TrimSuffix(given, ".yaml") + "-written.yaml"
	out, err := exec.CommandContext(ctx, filepath.Join(programs.Root, ".build", "bin", "kube-scheduler"),
		"--config="+given, "--secure-port=0", "--write-config-to="+path).CombinedOutput()
	if err != nil {
		p.Fatalf("%s: kube-scheduler --write-config-to: %v (make e2e builds it)\n%s", p.name, err, out)
	}
	return path
}

// printed returns a file with what Berth prints of a file.
func (p printing) printed(given string) string {
	p.Helper()
	result, err := programs.Command(p.Context(), "config", "print", given)
	if err != nil || result.Code != 0 {
		p.Fatalf("%s: berth config print: %v\n%s", p.name, err, result.Stderr)
	}
	return p.file(strings.TrimSuffix(filepath.Base(given), ".yaml")+"-printed.yaml", result.Stdout)
}

// printedConfig is a configuration, split: plugins are by profile and point, fields are all others by path.
type printedConfig struct {
	fields  map[string]any
	plugins map[string]map[string]pluginLists
}

type pluginLists struct{ Enabled, Disabled []pluginWeight }

type pluginWeight struct {
	Name   string
	Weight int64
}

func (p printing) read(path string) printedConfig {
	p.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		p.Fatal(err)
	}
	var whole map[string]any
	var lists struct {
		Profiles []struct {
			SchedulerName string
			Plugins       map[string]pluginLists
		}
	}
	if err := yaml.Unmarshal(data, &whole); err != nil {
		p.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &lists); err != nil {
		p.Fatal(err)
	}
	c := printedConfig{map[string]any{}, map[string]map[string]pluginLists{}}
	for _, profile := range lists.Profiles {
		c.plugins[profile.SchedulerName] = profile.Plugins
	}
	flatten(whole, "", c.fields)
	return c
}

// flatten adds the fields of a value by their paths. Profiles and plugins are by name, and plugins of points left out.
func flatten(v any, path string, fields map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if key == "plugins" && strings.HasPrefix(path, "profiles[") {
				continue
			}
			flatten(inner, strings.TrimPrefix(path+"."+key, "."), fields)
		}
	case []any:
		for i, inner := range v {
			flatten(inner, fmt.Sprintf("%s[%v]", path, keyOf(path, inner, i)), fields)
		}
	default:
		fields[path] = v
	}
}

// keyOf returns the name of an element of a list, or its index.
func keyOf(path string, v any, index int) any {
	m, ok := v.(map[string]any)
	switch {
	case ok && path == "profiles":
		return m["schedulerName"]
	case ok && strings.HasSuffix(path, ".pluginConfig"):
		return m["name"]
	}
	return index
}

// compare compares fields, and counts the differences with a reason.
func (p printing) compare(what string, first, second map[string]any, used map[string]int) {
	p.Helper()
	compared := 0
	for path := range union(first, second) {
		if cmp.Equal(first[path], second[path]) {
			compared++
			continue
		}
		i := slices.IndexFunc(printedDifferences, func(d printedDifference) bool { return d.field.MatchString(path) })
		if i < 0 {
			p.Errorf("%s: %s: %s: %v and %v", p.name, what, path, first[path], second[path])
			continue
		}
		used[printedDifferences[i].field.String()]++
	}
	if compared < 15 {
		p.Errorf("%s: %s: only %d fields are the same", p.name, what, compared)
	}
}

// union returns the keys of both.
func union(first, second map[string]any) map[string]any {
	all := maps.Clone(first)
	maps.Copy(all, second)
	return all
}

// comparePlugins compares which plugins run, and with which weights in scores. A plugin that is nowhere has been
// disabled at its only point.
func (p printing) comparePlugins(theirs, ours printedConfig) {
	p.Helper()
	for profile, points := range theirs.plugins {
		weights, disabled := map[string]int64{}, []string{}
		for _, point := range []string{"multiPoint", "score"} {
			for _, e := range points[point].Enabled {
				weights[e.Name] = max(e.Weight, 1)
			}
		}
		enabled := map[string]bool{}
		for _, lists := range points {
			for _, e := range lists.Enabled {
				enabled[e.Name] = true
			}
			for _, e := range lists.Disabled {
				disabled = append(disabled, e.Name)
			}
		}
		for point, lists := range ours.plugins[profile] {
			p.compareEnabled(profile+": "+point, lists.Enabled, enabled, weights)
		}
		for name := range enabled {
			runs := slices.ContainsFunc(slices.Collect(maps.Values(ours.plugins[profile])), func(l pluginLists) bool {
				return slices.ContainsFunc(l.Enabled, func(e pluginWeight) bool { return e.Name == name })
			})
			if !runs && !slices.Contains(disabled, name) {
				p.Errorf("%s: %s: only kube-scheduler has %s", p.name, profile, name)
			}
		}
	}
}

// compareEnabled checks that Berth has no plugins at a point that kube-scheduler does not have, and its weights.
func (p printing) compareEnabled(
	where string, ours []pluginWeight, enabled map[string]bool, weights map[string]int64,
) {
	p.Helper()
	for _, e := range ours {
		if !enabled[e.Name] {
			p.Errorf("%s: %s: only Berth has %s", p.name, where, e.Name)
		}
		if strings.HasSuffix(where, ": score") && e.Weight != weights[e.Name] {
			p.Errorf("%s: %s: %s has weight %d, upstream %d", p.name, where, e.Name, e.Weight, weights[e.Name])
		}
	}
}
