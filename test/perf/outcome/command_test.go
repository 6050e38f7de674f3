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
		{[]string{filepath.Join(here, ".build", "benchperf"), "--runs=3", "--out=.build/bench"},
			"benchperf --runs=3 --out=.build/bench"},
		{[]string{"benchperf", "--files=" + home + "/go/pkg/mod/k8s.io/kubernetes@v1.36.3/test"},
			"benchperf --files=$GOMODCACHE/k8s.io/kubernetes@v1.36.3/test"},
		{[]string{"benchperf", "--out=" + home + "/out"}, "benchperf --out=$HOME/out"},
		{[]string{"benchperf", "--out", filepath.Join(here, "out")}, "benchperf --out $PWD/out"},
	} {
		if got := CommandLine(c.line); got != c.want {
			t.Errorf("%v: %q, want %q", c.line, got, c.want)
		}
	}
}
