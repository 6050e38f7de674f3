package exploretest

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
)

// long adds the scenarios that take minutes rather than seconds.
var long = flag.Bool("long", false, "explore the large scenarios too")

// Run explores a model. More states than its limit fail the test.
func Run[W any](t *testing.T, model explore.Compact[W]) explore.Result {
	t.Helper()
	r, err := explore.RunCompact(model)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each runs a subtest for each scenario, in the order of their names; for the large ones only with -long.
func Each[S any](t *testing.T, scenarios, large map[string]S, test func(t *testing.T, name string, s S)) {
	t.Helper()
	all := maps.Clone(scenarios)
	if *long {
		maps.Copy(all, large)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { test(t, name, all[name]) })
	}
}

// Holds checks that nothing is broken in any state.
func Holds(t *testing.T, r explore.Result) {
	t.Helper()
	if r.Broken != "" {
		t.Fatalf("%s:\n%s", r.Broken, strings.Join(r.History, "\n"))
	}
	t.Logf("%d states, %d steps deep", r.States, r.Depth)
}

// Breaks checks that something is broken, and logs how.
func Breaks(t *testing.T, r explore.Result) {
	t.Helper()
	if r.Broken == "" {
		t.Fatalf("nothing is broken without it, in %d states", r.States)
	}
	t.Logf("%d states. %s, after %d steps:\n%s", r.States, r.Broken, len(r.History), strings.Join(r.History, "\n"))
}

// KeyLosesNothing explores a model twice, with its key, which takes states for one that behave alike, and with one that
// does not. It checks that both find the same.
func KeyLosesNothing[W any](t *testing.T, name string, model explore.Compact[W]) {
	t.Helper()
	short := Run(t, model)
	model.Key = func(w *W, buf []byte) []byte { return fmt.Append(buf, *w) }
	all := Run(t, model)
	if all.Broken != short.Broken || len(all.History) != len(short.History) || all.States < short.States {
		t.Errorf("%s: %q after %d steps, but with every state told apart %q after %d",
			name, short.Broken, len(short.History), all.Broken, len(all.History))
	}
	t.Logf("%s: %d states stand for %d", name, short.States, all.States)
}
