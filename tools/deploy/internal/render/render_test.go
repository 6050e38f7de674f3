package render_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

const root = "../../../.."

// objectsOf returns a variant's objects by either way.
func objectsOf(t *testing.T, v render.Variant) (chart, kustomization []*unstructured.Unstructured) {
	t.Helper()
	templates, err := render.Chart(root, v)
	if err != nil {
		t.Fatal(err)
	}
	if chart, err = render.Objects(render.Merged(templates)); err != nil {
		t.Fatal(err)
	}
	text, err := render.Kustomization(root, v)
	if err != nil {
		t.Fatal(err)
	}
	if kustomization, err = render.Objects(text); err != nil {
		t.Fatal(err)
	}
	return chart, kustomization
}

// isNamespace: Helm makes the namespace itself (--create-namespace), before the chart.
func isNamespace(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }

// TestBothWaysGiveTheSame is the promise of deploy/: whichever tool installs a variant.
func TestBothWaysGiveTheSame(t *testing.T) {
	for _, v := range render.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			chart, kustomization := objectsOf(t, v)
			kustomization = slices.DeleteFunc(kustomization, isNamespace)
			if diff := cmp.Diff(chart, kustomization); diff != "" {
				t.Errorf("chart (-) and kustomization (+) differ:\n%s", diff)
			}
			if len(chart) < 8 {
				t.Errorf("%d objects: want at least 8", len(chart))
			}
		})
	}
}

func TestGeneratedFilesAreFresh(t *testing.T) {
	if err := render.Generate(root, true); err != nil {
		t.Error(err)
	}
}

// TestEveryOverlayIsAVariant: a folder nobody renders is a folder nobody checks.
func TestEveryOverlayIsAVariant(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "deploy", "k8s", "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{render.Base}
	for _, e := range entries {
		want = append(want, e.Name())
	}
	var got []string
	for _, v := range render.Variants() {
		got = append(got, v.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders (-) and variants (+) differ:\n%s", diff)
	}
}

// TestBadValuesAreRefused: the schema names the value and what is accepted.
func TestBadValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]any
		says string
	}{
		"unknown key":      {map[string]any{"queu": map[string]any{"replicas": 2}}, "queu"},
		"no replicas":      {map[string]any{"queue": map[string]any{"replicas": 0}}, "replicas"},
		"kind":             {map[string]any{"descheduler": map[string]any{"kind": "Daemon"}}, "kind"},
		"digest":           {map[string]any{"image": map[string]any{"digest": "latest"}}, "digest"},
		"above the system": {map[string]any{"priorityClass": map[string]any{"value": 2000000000}}, "value"},
		"other config":     {map[string]any{"config": map[string]any{"kind": "Pod"}}, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.Chart(root, render.Variant{Name: render.Base, Set: c.set})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error that names %s", err, c.says)
			}
		})
	}
}
