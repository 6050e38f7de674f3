package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Release is the name that the chart is rendered with.
const Release = "berth"

// Chart renders the chart under root with the variant's values, which its schema checks, and
// returns what each template gives, by the template's name without suffix.
//
// rollOnChange is off: a digest of the configuration belongs to an installation, not to a
// file that is edited.
func Chart(root string, v Variant) (map[string]string, error) {
	dir := filepath.Join(root, "deploy", "helm", "berth")
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	values := map[string]any{}
	if v.Name != Base {
		if values, err = chartutil.ReadValuesFile(filepath.Join(dir, "values-"+v.Name+".yaml")); err != nil {
			return nil, fmt.Errorf("chart values of %s: %w", v.Name, err)
		}
	}
	values = chartutil.CoalesceTables(map[string]any{"rollOnChange": false}, chartutil.CoalesceTables(v.Set, values))
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: Release, Namespace: Namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("chart values of %s: %w", v.Name, err)
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("chart with the values of %s: %w", v.Name, err)
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

// Merged are all objects of the chart in one text.
func Merged(templates map[string]string) string {
	var all strings.Builder
	for _, text := range templates {
		all.WriteString("\n---\n" + text)
	}
	return all.String()
}

// Values reads the chart's own values.
func Values(root string) (map[string]any, error) {
	raw, err := os.ReadFile(filepath.Join(root, "deploy", "helm", "berth", "values.yaml"))
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	return values, yaml.Unmarshal(raw, &values)
}
