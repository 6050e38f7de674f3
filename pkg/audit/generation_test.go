package audit

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// generation writes the ledger's generation, with the floor at the newest resourceVersion.
func (s *scenario) generation(number uint64, open bool) {
	s.Helper()
	s.revision++
	floor := ledger.Floor{HW: map[string]uint64{ledger.KindPod: s.rv, ledger.KindNode: s.rv}}
	generation := identity.Generation{Number: number, Store: 1, Open: open, Reason: "it was lost"}
	events := []recording.LedgerEvent{
		{Key: identity.KeyGeneration, Value: s.must(identity.EncodeGeneration(generation)), Mod: s.revision},
		{Key: ledger.KeyFloor, Value: s.must(codec.EncodeFloor(floor)), Mod: s.revision},
	}
	s.records = append(s.records, recording.Record{Ledger: &recording.Ledger{Revision: s.revision, Events: events}})
}

// clear deletes the document of a node.
func (s *scenario) clear(node string) {
	s.key(recording.LedgerEvent{Key: ledger.KeyNode(node + "-uid"), Deleted: true})
	s.docs[node] = ledger.NodeDoc{NodeUID: node + "-uid", NodeName: node}
}

func TestGenerations(t *testing.T) {
	t.Run("a ledger is closed, cleared and opened, and goes on", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "0").place("n", "a")
		s.mark()
		s.generation(2, false)
		s.clear("n")
		s.bind("a", "n") // was in progress
		s.generation(2, true)
		s.mark()
		s.place("n", "b")
		s.bind("b", "n")
		report := s.finds()
		if len(report.Notes) != 1 {
			t.Errorf("notes %q, want one of the generation", report.Notes)
		}
	})
	t.Run("S2: a bind of before arrives when it is open", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.mark()
		s.generation(2, false)
		s.clear("n")
		s.generation(2, true)
		s.mark()
		s.bind("a", "n")
		s.mark()
		s.finds("violation S2 pod/d/a node/n")
	})
	t.Run("S1: what was bound for the ledger of before takes its room", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1")
		s.entry("a") // reserved in a ledger that was lost
		s.mark()
		s.generation(2, false)
		s.bind("a", "n")
		s.generation(2, true)
		s.mark()
		s.place("n", "b")
		s.finds("violation S1 node/n pod/d/b")
	})
	t.Run("I3: a bind for a ledger that was lost arrives when it is open", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.entry("a")
		s.generation(2, false)
		s.generation(2, true)
		s.mark()
		s.bind("a", "n")
		s.mark()
		s.finds("violation I3 pod/d/a node/n")
	})
}

func TestGenerationsThatAreNotAsTheyShould(t *testing.T) {
	t.Run("S12: a document is deleted while the generation is open", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.generation(2, false)
		s.generation(2, true)
		s.place("n", "a")
		s.clear("n")
		s.finds("violation S12 node/n ledger/n/n-uid")
	})
	t.Run("S17: a promise is left when it is opened", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.generation(2, false)
		s.generation(2, true)
		s.finds("violation S17 ledger/n/n-uid")
	})
	t.Run("S17: it goes back, and is opened without having been closed", func(t *testing.T) {
		s := begin(t)
		s.generation(2, false)
		s.generation(2, true)
		s.generation(1, true)
		s.finds("violation S17 ledger/generation")
	})
	t.Run("S17: the next one is opened at once", func(t *testing.T) {
		s := begin(t)
		s.generation(2, false)
		s.generation(2, true)
		s.generation(3, true)
		s.finds("violation S17 ledger/generation")
	})
}
