package render

import (
	"fmt"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Release is the name that the chart is rendered with.
const Release = "berth"

// chartDir is the chart's folder below the top of the repository.
const chartDir = "deploy/helm/berth"

// Chart renders the chart under root with the variant's values, which its schema checks, and
// returns what each template gives, by the template's name without suffix.
func Chart(root string, v Variant) (map[string]string, error) {
	rendered, err := rendered(root, v)
	if err != nil {
		return nil, err
	}
	byTemplate := map[string]string{}
	for path, text := range rendered {
		name, ok := strings.CutSuffix(filepath.Base(path), ".yaml")
		if ok && strings.TrimSpace(text) != "" {
			byTemplate[name] = text
		}
	}
	return byTemplate, nil
}

// Notes returns Helm's notes after an installation with the variant's values.
func Notes(root string, v Variant) (string, error) {
	rendered, err := rendered(root, v)
	if err != nil {
		return "", err
	}
	for path, text := range rendered {
		if filepath.Base(path) == "NOTES.txt" {
			return text, nil
		}
	}
	return "", fmt.Errorf("chart %s: no NOTES.txt", chartDir)
}

// rendered are the texts of all templates, by path. rollOnChange is off unless the variant sets
// it: a digest of the configuration belongs to an installation, not to a file that is edited.
func rendered(root string, v Variant) (map[string]string, error) {
	dir := filepath.Join(root, filepath.FromSlash(chartDir))
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	for _, path := range v.Absent {
		keys := strings.Split(path, ".")
		unstructured.RemoveNestedField(chart.Values, keys...)
	}
	values := map[string]any{}
	if v.Name != "" {
		if values, err = chartutil.ReadValuesFile(filepath.Join(dir, "values-"+v.Name+".yaml")); err != nil {
			return nil, fmt.Errorf("chart values of %s: %w", v.Name, err)
		}
	}
	values = chartutil.CoalesceTables(chartutil.CoalesceTables(v.Set, values), map[string]any{"rollOnChange": false})
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: Release, Namespace: Namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("chart values of %s: %w", v.Name, err)
	}
	render := func() (map[string]string, error) { return engine.Render(chart, all) }
	if v.Cluster != nil {
		render = func() (map[string]string, error) { return engine.RenderWithClientProvider(chart, all, v.Cluster) }
	}
	texts, err := render()
	if err != nil {
		return nil, fmt.Errorf("chart with the values of %s: %w", v.Name, err)
	}
	return texts, nil
}

// Merged are all objects of the chart in one text.
func Merged(templates map[string]string) string {
	var all strings.Builder
	for _, text := range templates {
		all.WriteString("\n---\n" + text)
	}
	return all.String()
}
