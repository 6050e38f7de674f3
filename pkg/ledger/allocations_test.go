package ledger_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// What a member may allocate for one changed document of the ledger with four reservations, which is a fifth more
// than it does: by itself, and when another view of the same process has decoded it.
const (
	allocationsOfDocument = 104
	allocationsWhenKnown  = 3
)

func TestAllocationsOfDocuments(t *testing.T) {
	const nodes, writes = 50, 20
	decoded, known := twice(t, nodes, writes)
	for name, c := range map[string]struct {
		batch  ledger.ViewBatch
		budget float64
	}{"decoded": {decoded, allocationsOfDocument}, "known": {known, allocationsWhenKnown}} {
		got := testing.AllocsPerRun(5, func() {
			if _, err := ledger.NewView().Fold(c.batch); err != nil {
				t.Fatal(err)
			}
		}) / (nodes * writes)
		if got > c.budget {
			t.Errorf("%s: %.1f allocations a document, want at most %.1f", name, got, c.budget)
		}
	}
}
