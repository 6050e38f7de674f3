package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/fields.md instead of comparing it")

const fieldsHead = `<!-- Written by "make generate" from the types themselves: manual changes are lost. -->
# Fields of the configuration files

Every field that is read, and what it holds. Any other field is a mistake, which is reported with its place.

Upstream's fields have upstream's meanings and defaults:
[kube-scheduler's reference](https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/) has those of the
first file, and [the descheduler's](https://github.com/kubernetes-sigs/descheduler/blob/v0.36.0/README.md) those of
its policy. What differs in Berth is in [configuration](configuration.md) and [descheduling](descheduling.md), and what
preemption's fields do in [preemption](preemption.md).
`

// fileTypes are the types of a configuration file: those that begin a file or the arguments of a
// plugin, under the heading that they get.
type fileTypes struct {
	heading string
	// dirs are the folders of their packages: of the repository, or "module:folder" of one that it uses.
	dirs []string
	// begin are the types with which a reader starts; arguments means that all named ...Args are.
	begin     []string
	arguments bool
}

var files = []fileTypes{
	{heading: "The file KubeSchedulerConfiguration",
		dirs:  []string{"k8s.io/kube-scheduler:config/v1", "k8s.io/component-base:config/v1alpha1"},
		begin: []string{"KubeSchedulerConfiguration"}, arguments: true},
	{heading: "Arguments of `Berth` in a profile's pluginConfig",
		dirs: []string{"pkg/placement/config"}, begin: []string{"berthArgs"}},
	{heading: "The file DeschedulerPolicy",
		dirs: []string{"pkg/descheduling/policy"}, begin: []string{"document"}, arguments: true},
	{heading: "`berth` in a DeschedulerPolicy",
		dirs: []string{"pkg/descheduling/policy"}, begin: []string{"berthBlock"}},
}

func TestFieldReferenceIsCurrent(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(fieldsHead)
	for _, f := range files {
		r := reference{structs: map[string]*ast.StructType{}, out: &b}
		for _, dir := range f.dirs {
			structsOf(t, folder(t, dir), r.structs)
		}
		fmt.Fprintf(&b, "\n## %s\n", f.heading)
		for _, name := range f.firsts(r.structs) {
			r.describe(t, name)
		}
	}
	const file = "../../docs/fields.md"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("docs/fields.md is stale, run make generate; file (-) and types (+):\n%s", diff)
	}
}

// firsts are the types that have a table of their own accord, in order.
func (f fileTypes) firsts(structs map[string]*ast.StructType) []string {
	var args []string
	for name := range structs {
		if f.arguments && strings.HasSuffix(name, "Args") && name != "berthArgs" && name != "podArgs" {
			args = append(args, name)
		}
	}
	slices.Sort(args)
	return slices.Concat(f.begin, args)
}

// folder is where the files of a package are.
func folder(t *testing.T, dir string) string {
	t.Helper()
	module, within, other := strings.Cut(dir, ":")
	if !other {
		return path.Join("../..", dir)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = "../../pkg" // whose go.mod requires it
	out, err := list.Output()
	if err != nil {
		t.Fatalf("where is %s: %v", module, err)
	}
	return path.Join(strings.TrimSpace(string(out)), within)
}

// structsOf adds the structs of a package by name.
func structsOf(t *testing.T, dir string, structs map[string]*ast.StructType) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		const mode = parser.ParseComments | parser.SkipObjectResolution
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, name), nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
}

// reference writes one table for each struct, and one for each that its fields are of.
type reference struct {
	structs   map[string]*ast.StructType
	described []string
	out       *bytes.Buffer
}

func (r *reference) describe(t *testing.T, name string) {
	t.Helper()
	if r.structs[name] == nil {
		t.Fatalf("no struct %s: has it got another name?", name)
	}
	queue := []string{name}
	for len(queue) > 0 {
		name, queue = queue[0], queue[1:]
		if slices.Contains(r.described, name) {
			continue
		}
		r.described = append(r.described, name)
		fields := r.fields(name)
		withMeaning := slices.ContainsFunc(fields, func(f documented) bool { return f.meaning != "" })
		fmt.Fprintf(r.out, "\n### %s\n\n| field | holds |%s\n|---|---|%s\n",
			name, column(withMeaning, " means |"), column(withMeaning, "---|"))
		for _, f := range fields {
			fmt.Fprintf(r.out, "| `%s` | %s |%s\n", f.name, f.holds, column(withMeaning, " "+f.meaning+" |"))
			if r.structs[f.of] != nil {
				queue = append(queue, f.of)
			}
		}
	}
}

// column is a third cell, where there is one.
func column(there bool, cell string) string {
	if there {
		return cell
	}
	return ""
}

// documented is a field as a reader of the file knows it. of is the type of which it holds one or
// several.
type documented struct{ name, holds, of, meaning string }

// fields are those of a struct, with those of the structs that it embeds.
func (r *reference) fields(name string) (list []documented) {
	local := strings.ToLower(name[:1]) == name[:1]
	for _, f := range r.structs[name].Fields.List {
		var tag reflect.StructTag
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		holds, of := holding(f.Type)
		switch {
		case of == "metav1.TypeMeta": // apiVersion and kind
		case strings.Contains(options, "inline") && r.structs[of] != nil:
			list = append(list, r.fields(of)...)
		case key != "" && key != "-":
			d := documented{name: key, holds: holds, of: of}
			if local { // the words of others are theirs
				d.meaning = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
			list = append(list, d)
		}
	}
	return list
}

// typeNames are types that have a name in the file other than in Go.
var typeNames = map[string]string{
	"bool": "true or false", "string": "text", "uint": "number, 0 or more", "metav1.Duration": "duration, as 1m30s",
	"intstr.IntOrString": "number, or percents as 25%", "runtime.RawExtension": "arguments", "byte": "bytes in base64",
	"placement.PDBPolicy": "text", "MetricsSource": "text",
}

// holding says what a field holds, and of which type one or several.
func holding(e ast.Expr) (holds, of string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return holding(e.X)
	case *ast.ArrayType:
		if holds, of = holding(e.Elt); of == "byte" {
			return holds, of
		}
		return "list: " + holds, of
	case *ast.MapType:
		holds, of = holding(e.Value)
		return "map: " + holds, of
	case *ast.SelectorExpr:
		of = strings.TrimPrefix(fmt.Sprint(e.X, ".", e.Sel.Name), "componentbaseconfigv1alpha1.")
	case *ast.Ident:
		of = e.Name
	}
	if name, ok := typeNames[of]; ok {
		return name, of
	}
	if _, kubernetes, ok := strings.Cut(of, "."); ok {
		return kubernetes, of
	}
	if strings.HasPrefix(of, "int") || strings.HasPrefix(of, "float") {
		return "number", of
	}
	return of, of
}
