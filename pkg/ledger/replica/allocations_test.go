package replica_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// allocationsOfDocument is how many allocations a member may make for one changed document of the ledger with four
// reservations, which is a fifth more than it does.
const allocationsOfDocument = 17

func TestAllocationsOfDocuments(t *testing.T) {
	const nodes, writes = 50, 20
	batch := placementHistory(t, nodes, writes, 4)
	got := testing.AllocsPerRun(5, func() {
		if _, err := replica.NewView().Fold(batch); err != nil {
			t.Fatal(err)
		}
	}) / (nodes * writes)
	if got > allocationsOfDocument {
		t.Errorf("%.1f allocations a document, want at most %d", got, allocationsOfDocument)
	}
}
