package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A plan is a function of its seed, it fits its time, and ten minutes have some of everything.
func TestPlan(t *testing.T) {
	const within = 10 * time.Minute
	first := plan(7, within)
	if diff := cmp.Diff(first, plan(7, within), cmp.AllowUnexported(fault{})); diff != "" {
		t.Errorf("two plans of one seed differ:\n%s", diff)
	}
	seen := map[faultKind]int{}
	for _, f := range first {
		seen[f.kind]++
		instant := f.kind == backUp || f.kind == restore
		if f.begin > within-quietEnd || !instant && f.lasts < minLast || f.lasts > maxLast {
			t.Errorf("%s: out of bounds", f)
		}
	}
	if seen[backUp] != 1 || seen[restore] != 1 {
		t.Errorf("%d backups and %d restores, want one of each", seen[backUp], seen[restore])
	}
	if slices.ContainsFunc(plan(7, restoresFrom-1), func(f fault) bool { return f.kind == restore }) {
		t.Error("a run that is too short for it restores the ledger")
	}
	for _, k := range kinds {
		if seen[k.kind] == 0 {
			t.Errorf("no %s in %d faults", k.kind, len(first))
		}
	}
}
