package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/config"
)

// customProfile enables Racks at every point, at filter as the second plugin, and Prices only at score.
const customProfile = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Racks, weight: 3}]
    filter:
      enabled: [{name: Others}]
      disabled: [{name: Racks}]
    score:
      enabled: [{name: Prices}]
  pluginConfig:
  - name: Racks
    args: {limit: 4}
`

func TestCustomPlugins(t *testing.T) {
	read, err := config.Parse("f", []byte(customProfile), "Racks", "Prices", "Others")
	if err != nil {
		t.Fatal(err)
	}
	one := func(name string, weight int32) []placement.CustomPlugin {
		return []placement.CustomPlugin{{Name: name, Weight: weight}}
	}
	want := &placement.Custom{
		Points: map[string][]placement.CustomPlugin{
			"score":  {{Name: "Racks", Weight: 3}, {Name: "Prices", Weight: 1}},
			"filter": one("Others", 1),
		},
		Args: map[string]runtime.Object{
			"Racks": &runtime.Unknown{Raw: []byte(`{"limit":4}`), ContentType: runtime.ContentTypeJSON},
		},
	}
	for _, at := range strings.Fields("preEnqueue preFilter postFilter preScore reserve permit preBind bind postBind") {
		want.Points[at] = one("Racks", 3)
	}
	got := read.Profiles[0]
	if diff := cmp.Diff(want, got.Custom); diff != "" {
		t.Errorf("custom plugins (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Default().Profiles[0].Plugins, got.Plugins); diff != "" {
		t.Errorf("the rules are others (-without +with):\n%s", diff)
	}
	if !got.ShowsObjects() {
		t.Error("facts would not show plugins all of a pod")
	}
	if _, err := placement.NewProfile(got); err != nil {
		t.Error(err)
	}
}

func TestCustomPluginsAreKnownByName(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{customProfile, `profiles[0].plugins.multiPoint.enabled[0]: "Racks": want one of DefaultBinder, DefaultPreemption, ` +
			`DynamicResources`},
		{strings.Replace(customProfile, "score:\n", "queueSort:\n", 1), "queueSort"},
		{strings.Replace(customProfile, "{limit: 4}", "[4]", 1), "profiles[0].pluginConfig[0].args"},
	} {
		names := []string{"Racks", "Prices", "Others"}
		if test.file == customProfile {
			names = names[1:]
		}
		if _, err := config.Parse("f", []byte(test.file), names...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v, want %q", test.file, err, test.want)
		}
	}
}

// Plugins are called to bind only if they come before DefaultBinder, in upstream's order: first those at both bind
// and multiPoint, then those only at multiPoint, then the rest.
func TestPluginsThatBind(t *testing.T) {
	for _, test := range []struct{ bind, want string }{
		{``, ``},
		{`bind: {enabled: [{name: Prices}]}`, ``},
		{`bind: {enabled: [{name: Prices}, {name: Racks}]}`, `Racks`},
		{`bind: {enabled: [{name: Prices}, {name: DefaultBinder}, {name: Others}], disabled: [{name: "*"}]}`, `Prices`},
		{`bind: {enabled: [{name: DefaultBinder}, {name: Prices}]}`, ``},
		{`bind: {disabled: [{name: DefaultBinder}]}`, `Racks`},
		{`bind: {enabled: [{name: Others}, {name: Prices}], disabled: [{name: "*"}]}`, `Others Prices`},
	} {
		file := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n" +
			"    multiPoint: {enabled: [{name: Racks}]}\n    " + test.bind + "\n"
		read, err := config.Parse("f", []byte(file), "Racks", "Prices", "Others")
		if err != nil {
			t.Fatalf("%s: %v", test.bind, err)
		}
		var names []string
		for _, p := range read.Profiles[0].Custom.Binding() {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: asked %q, want %q", test.bind, got, test.want)
		}
	}
}
