package render

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const referenceHead = "<!-- Written by `make deploy-generate` from the chart's values.yaml and values.schema.json:\n" +
	`manual changes are lost. -->
# Values of the Helm chart

The chart is [deploy/helm/berth](../deploy/helm/berth), its defaults are in
[values.yaml](../deploy/helm/berth/values.yaml). Helm rejects all other values.

Values under ` + "`pods`" + ` are defaults for all pods. A component takes the same values under its own name, and both
are combined:

- ` + "`nodeSelector`, `podAnnotations`, `podLabels`, `serviceAccountAnnotations`" + `: key by key; the component's
  value wins.
- ` + "`tolerations`, `affinity`, `topologySpreadConstraints`" + `: the component's value replaces the default,
  unless it is empty.
- ` + "`extraEnv`, `extraVolumes`, `extraVolumeMounts`" + `: the default's items come first, then the component's. An
  item of the component replaces a default item of the same name (of ` + "`extraVolumeMounts`" + `: the same
  ` + "`mountPath`" + `).

Names that the chart itself uses, such as the variable ` + "`GOMEMLIMIT`" + `, are refused.

## General
`

// longDefault is how many characters of a default are shown.
const longDefault = 80

// valueSchema is the part of a JSON schema that the reference uses.
type valueSchema struct {
	Ref                  string                  `json:"$ref"`
	Defs                 map[string]*valueSchema `json:"$defs"`
	Description          string                  `json:"description"`
	Type                 string                  `json:"type"`
	Enum                 []any                   `json:"enum"`
	Minimum              *int64                  `json:"minimum"`
	Maximum              *int64                  `json:"maximum"`
	Items                *valueSchema            `json:"items"`
	Properties           map[string]*valueSchema `json:"properties"`
	AdditionalProperties json.RawMessage         `json:"additionalProperties"`
}

// ValuesReference is docs/values.md: a table of the chart's values, in the order of values.yaml.
func ValuesReference(root string) (string, error) {
	dir := filepath.Join(root, filepath.FromSlash(chartDir))
	raw, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		return "", err
	}
	var schema valueSchema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return "", fmt.Errorf("values.schema.json: %w", err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, "values.yaml")); err != nil {
		return "", err
	}
	var values yaml.Node
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return "", fmt.Errorf("values.yaml: %w", err)
	}
	r := valuesReference{defs: schema.Defs}
	r.out.WriteString(referenceHead)
	if err := r.table("", &schema, values.Content[0]); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// valuesReference writes docs/values.md.
type valuesReference struct {
	defs map[string]*valueSchema
	out  strings.Builder
}

// section is an object of values that has a table of its own.
type section struct {
	path   string
	schema *valueSchema
	values *yaml.Node
}

// table writes the values of an object, then the sections of the objects in it.
func (r *valuesReference) table(prefix string, schema *valueSchema, values *yaml.Node) error {
	var sections []section
	seen := map[string]bool{"global": true} // Helm's own
	rows := []string{"\n| value | type | default | description |\n|---|---|---|---|\n"}
	for i := 0; i < len(values.Content); i += 2 {
		key := values.Content[i].Value
		seen[key] = true
		name := prefix + key
		value := section{path: name, schema: schema.Properties[key], values: values.Content[i+1]}
		switch {
		case value.schema == nil:
			return fmt.Errorf("values.schema.json: %s: missing, but in values.yaml", name)
		case value.schema.closed():
			sections = append(sections, value)
		default:
			row, err := r.row(value)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
	}
	for key := range schema.Properties {
		if !seen[key] {
			return fmt.Errorf("values.yaml: %s%s: missing, but in values.schema.json", prefix, key)
		}
	}
	if len(rows) > 1 {
		r.out.WriteString(strings.Join(rows, ""))
	}
	for _, s := range sections {
		fmt.Fprintf(&r.out, "\n## %s\n\n%s\n", s.path, s.schema.Description)
		if err := r.table(s.path+".", s.schema, s.values); err != nil {
			return err
		}
	}
	return nil
}

func (r *valuesReference) row(value section) (string, error) {
	schema := *value.schema
	if name, ok := strings.CutPrefix(schema.Ref, "#/$defs/"); ok {
		def := *r.defs[name]
		if schema.Description != "" {
			def.Description = schema.Description
		}
		schema = def
	}
	if schema.Description == "" || schema.Type == "" {
		return "", fmt.Errorf("values.schema.json: %s: want a description and a type", value.path)
	}
	text, err := defaultOf(value.values)
	if err != nil {
		return "", fmt.Errorf("values.yaml: %s: %w", value.path, err)
	}
	cells := []string{code(value.path), schema.accepted(), text, strings.ReplaceAll(schema.Description, "<", "&lt;")}
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n", nil
}

// closed reports whether the object's values are listed one by one.
func (s *valueSchema) closed() bool { return s.Ref == "" && string(s.AdditionalProperties) == "false" }

// accepted describes the type, with the other demands on a value.
func (s *valueSchema) accepted() string {
	switch {
	case len(s.Enum) > 0:
		var all []string
		for _, v := range s.Enum {
			all = append(all, code(fmt.Sprint(v)))
		}
		return s.Type + ": " + strings.Join(all, ", ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + s.Items.Type + "s"
	case s.Type == "object" && len(s.AdditionalProperties) > 0 && !slices.Contains(s.AdditionalProperties, 'f'):
		return "map of strings"
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %d to %d", s.Type, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s, at least %d", s.Type, *s.Minimum)
	}
	return s.Type
}

// defaultOf is a default on one line, or where it is when that is too long.
func defaultOf(value *yaml.Node) (string, error) {
	inline(value)
	raw, err := yaml.Marshal(value)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	if len(text) > longDefault {
		return "in values.yaml", nil
	}
	return code(text), nil
}

// inline puts a value on one line, without its comments.
func inline(value *yaml.Node) {
	value.HeadComment, value.LineComment, value.FootComment = "", "", ""
	if value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode {
		value.Style = yaml.FlowStyle
	}
	for _, child := range value.Content {
		inline(child)
	}
}

func code(text string) string { return "`" + text + "`" }
