package render

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const generatedHeader = "# Generated from deploy/helm/berth by `make deploy-generate`; change it there.\n"

// ErrStale: a generated file is not what the chart gives.
var ErrStale = errors.New("stale, run make deploy-generate")

// Generate writes every generated file of deploy/k8s, or with check set compares.
func Generate(root string, check bool) error {
	var stale []error
	for _, f := range files() {
		want, err := f.content(root)
		if err != nil {
			return fmt.Errorf("deploy/k8s/%s: %w", f.path, err)
		}
		path := filepath.Join(root, "deploy", "k8s", filepath.FromSlash(f.path))
		if check {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				stale = append(stale, fmt.Errorf("deploy/k8s/%s: %w", f.path, ErrStale))
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(stale...)
}

// content is the file's text: the template's objects in its order, each in the one form that
// a YAML library gives, without comments, which belong to the chart.
func (f file) content(root string) (string, error) {
	templates, err := Chart(root, f.variant)
	if err != nil {
		return "", err
	}
	text, ok := templates[f.template]
	if !ok {
		return "", fmt.Errorf("template %s gives nothing", f.template)
	}
	objects, err := Objects(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(generatedHeader)
	written := 0
	for _, o := range objects {
		if len(f.kinds) > 0 && !slices.Contains(f.kinds, o.GetKind()) {
			continue
		}
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}
		if written > 0 {
			out.WriteString("---\n")
		}
		out.Write(raw)
		written++
	}
	return out.String(), nil
}
