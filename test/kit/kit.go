package kit

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// stopWithin bounds the stop of one thing that a test started.
const stopWithin = time.Minute

// Main finds the programs under test, runs the tests of a suite and returns the exit code. The flag names an older
// version of Kubernetes for the programs of the cluster; it may be nil.
func Main(m *testing.M, suite string, programs *harness.Programs, kubernetes *string) int {
	flag.Parse()
	var err error
	if *programs, err = harness.Find(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", suite, err)
		return 1
	}
	if kubernetes != nil {
		programs.Kubernetes = *kubernetes
	}
	return m.Run()
}

// Dir returns a new directory for a test of a suite; its path leaves room for a unix socket in it. It is discarded when
// the test ends.
func Dir(t *testing.T, suite string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-"+suite+"-")
	if err != nil {
		t.Fatal(err)
	}
	Discard(t, dir)
	return dir
}

// Discard removes a directory when the test ends, unless the test has failed.
func Discard(t *testing.T, dir string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept for reading: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}

// AtEnd calls a stop function when the test ends.
func AtEnd(t *testing.T, stop func(context.Context) error) { t.Cleanup(func() { Stop(t, stop) }) }

// Stop calls a stop function in a cleanup of a test, whose own context has ended by then.
func Stop(t *testing.T, stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopWithin)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Error(err)
	}
}
