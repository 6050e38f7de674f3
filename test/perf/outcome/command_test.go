package outcome

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCommandLineHoldsNoPathOfThisMachine(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GOMODCACHE", filepath.Join(home, "go", "pkg", "mod"))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{filepath.Join(here, ".build", "berthbench"), "perf", "--runs=3", "--out=.build/bench"},
			"berthbench perf --runs=3 --out=.build/bench"},
		{[]string{"berthbench", "perf", "--files=" + home + "/go/pkg/mod/k8s.io/kubernetes@v1.36.3/test"},
			"berthbench perf --files=$GOMODCACHE/k8s.io/kubernetes@v1.36.3/test"},
		{[]string{"berthbench", "perf", "--out=" + home + "/out"}, "berthbench perf --out=$HOME/out"},
		{[]string{"berthbench", "perf", "--out", filepath.Join(here, "out")}, "berthbench perf --out $PWD/out"},
	} {
		if got := CommandLine(c.line); got != c.want {
			t.Errorf("%v: %q, want %q", c.line, got, c.want)
		}
	}
}
