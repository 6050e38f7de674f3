package render

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const generatedHeader = "# Generated from deploy/helm/berth by `make deploy-generate`; change it there.\n"

// ErrStale: a generated file is not what the chart gives.
var ErrStale = errors.New("stale, run make deploy-generate")

// output is one generated file: its path below the top of the repository, and the function that makes its text.
type output struct {
	path    string
	content func(root string) (string, error)
}

// outputs are all that Generate writes.
func outputs() []output {
	all := []output{
		{path: "deploy/monitoring/dashboard.json", content: chartFile("files/dashboard.json")},
		{path: "docs/values.md", content: ValuesReference},
	}
	for _, f := range files() {
		all = append(all, output{path: path.Join("deploy/k8s", f.path), content: f.content})
	}
	return all
}

// Generate writes every generated file, or with check set compares.
func Generate(root string, check bool) error {
	var stale []error
	for _, o := range outputs() {
		want, err := o.content(root)
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
		path := filepath.Join(root, filepath.FromSlash(o.path))
		if check {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				stale = append(stale, fmt.Errorf("%s: %w", o.path, ErrStale))
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

// chartFile is a file of the chart as it is.
func chartFile(name string) func(root string) (string, error) {
	return func(root string) (string, error) {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(chartDir), filepath.FromSlash(name)))
		return string(raw), err
	}
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
		return "", fmt.Errorf("template %s renders nothing", f.template)
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
