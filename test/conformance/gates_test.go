package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	zpages "k8s.io/component-base/zpages/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/berth-scheduler/berth/pkg/placement/gates"
)

// gateImports are the packages that name the gates which upstream's scheduler reads.
var gateImports = []string{"k8s.io/kubernetes/pkg/features", "k8s.io/component-base/zpages/features"}

// TestEveryGateOfTheSchedulerIsListed: each feature gate that the source of upstream's scheduler names is in one of
// our lists, so that a server that has it on never surprises. Upstream's unit tests are left out.
func TestEveryGateOfTheSchedulerIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, g := range gates.All() {
		listed[g.Name] = true
	}
	read := gatesRead(t)
	// The scheduler copies most gates into a struct, with one field for each.
	if fields := reflect.TypeFor[feature.Features]().NumField(); len(read) < fields {
		t.Fatalf("the source reads %d gates, but feature.Features has %d fields", len(read), fields)
	}
	for name, file := range read {
		if !listed[name] {
			t.Errorf("%s, which %s reads, is in no list of pkg/placement/gates", name, file)
		}
	}
	t.Logf("upstream's scheduler reads %d gates", len(read))
}

// TestListedGatesExist: each gate of our lists is one of upstream's, with its stage. One that upstream has removed can
// go.
func TestListedGatesExist(t *testing.T) {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, g := range gates.All() {
		if upstream, ok := known[featuregate.Feature(g.Name)]; ok {
			if string(upstream.PreRelease) != g.Stage() {
				t.Errorf("%s has stage %q, upstream's is %q", g.Name, g.Stage(), upstream.PreRelease)
			}
			continue
		}
		if g.Name != string(zpages.ComponentFlagz) && g.Name != string(zpages.ComponentStatusz) {
			t.Errorf("upstream has no feature gate %s", g.Name)
		}
	}
}

// gatesRead returns the gates that the source of upstream's scheduler names, with a file that does.
func gatesRead(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("folder of k8s.io/kubernetes: %v", err)
	}
	module, read := strings.TrimSpace(string(out)), map[string]string{}
	for _, folder := range []string{"pkg/scheduler", "cmd/kube-scheduler"} {
		err := filepath.WalkDir(filepath.Join(module, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			short, err := filepath.Rel(module, path)
			for _, name := range gatesOf(file) {
				read[name] = short
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return read
}

// gatesOf returns the gates that a file names: what it selects from a package of gates, except functions, whose
// names are not those of any gate.
func gatesOf(file *ast.File) []string {
	var packages []string
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		switch {
		case err != nil || !slices.Contains(gateImports, path):
		case i.Name != nil:
			packages = append(packages, i.Name.Name)
		default:
			packages = append(packages, "features")
		}
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains(packages, x.Name) && s.Sel.Name != "AddFeatureGates" {
			list = append(list, s.Sel.Name)
		}
		return true
	})
	return list
}
