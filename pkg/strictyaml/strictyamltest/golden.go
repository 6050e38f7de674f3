package strictyamltest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Files returns the YAML files of testdata/dir, sorted by name. It fails the test if there are none: a renamed
// directory would otherwise test nothing.
func Files(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no inputs in testdata/%s: %v", dir, err)
	}
	return files
}

// Golden compares got with the golden file of input (the same name with .golden), and with -update writes it.
func Golden(t testing.TB, input, got string) {
	t.Helper()
	file := strings.TrimSuffix(input, ".yaml") + ".golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update to accept):\n%s", file, diff)
	}
}
