package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestEffectiveConfigurationIsAFile: one that means the same, printed again too. test/conformance does so with
// kube-scheduler, on random files.
func TestEffectiveConfigurationIsAFile(t *testing.T) {
	files, err := filepath.Glob("testdata/accepted/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, err := Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		printed, err := yaml.Marshal(first.Effective)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Parse(file, printed)
		if err != nil {
			t.Errorf("%s: printed: %v\n%s", file, err, printed)
			continue
		}
		if diff := cmp.Diff(first.Effective, second.Effective); diff != "" {
			t.Errorf("%s: printed again (-first +second):\n%s", file, diff)
		}
		for i := range first.Profiles {
			a, b := first.Profiles[i], second.Profiles[i]
			if diff := cmp.Diff(a.Preemption, b.Preemption); diff != "" || a.HomeNodesFirst != b.HomeNodesFirst ||
				a.PercentageOfNodesToScore != b.PercentageOfNodesToScore {
				t.Errorf("%s: %s: %s\n%+v\n%+v", file, a.SchedulerName, diff, a, b)
			}
		}
	}
}

// TestFieldsWithoutEffectAreNamed: each that the file sets once, whatever its value, and none that it leaves out.
func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	const plugins = "profiles: [{plugins: {preBind: {enabled: [{name: Own}]}}}]\n"
	for text, want := range map[string]string{
		"":                  "",
		"parallelism: 16\n": "parallelism", "parallelism: 4\n" + plugins: "",
		"leaderElection: {leaderElect: false}\n": "leaderElection",
		"leaderElection: {resourceName: x}\n":    "leaderElection",
		"enableProfiling: false\n":               "enableProfiling",
		"enableContentionProfiling: true\n":      "enableContentionProfiling",
		"delayCacheUntilActive: true\n":          "delayCacheUntilActive",

		"clientConnection: {contentType: application/json}": "clientConnection.contentType",
		"clientConnection: {acceptContentTypes: x}":         "clientConnection.acceptContentTypes",
		"clientConnection: {qps: 5, burst: 7}":              "",

		"profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 9m}}]}]\n": "",

		"profiles: [{}, {schedulerName: b, pluginConfig: [{name: NodeAffinity}, {name: DynamicResources, " +
			"args: {filterTimeout: 10s}}]}]\n": "profiles[1].pluginConfig[1].args.filterTimeout",
	} {
		text = strings.Replace(text, "[{}, ", "[{schedulerName: a}, ", 1)
		c, err := Parse("f.yaml", []byte(head+text), "Own")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		lines := strings.Join(c.Warnings, "\n")
		if want == "" && lines != "" || want != "" && !strings.HasPrefix(lines, "f.yaml: "+want+": no effect: ") ||
			len(c.Warnings) > 1 {
			t.Errorf("%s: %q, want %q", text, lines, want)
		}
	}
	if c := Default(); len(c.Warnings) > 0 {
		t.Errorf("the default: %q", c.Warnings)
	}
}
