package audit

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// checkCollected checks that a document is deleted only when it promises nothing, that the floor includes its
// high-water marks from that revision on, and that the floor never decreases (S12). The floor stands in for all
// deleted documents: a shard that finds no document for a node takes its high-water marks from the floor. before and
// floor are the stubs of the changed keys and the floor as they were before the revision.
func (l *documentLaws) checkCollected(events []recording.LedgerEvent, before map[string]stub, floor map[string]uint64) {
	for _, kind := range slices.Sorted(maps.Keys(floor)) {
		if l.state.floor[kind] < floor[kind] {
			l.found.violate("S12", []string{ledgerObject(ledger.KeyFloor)},
				"its high-water mark of %ss decreased from %d to %d", kind, floor[kind], l.state.floor[kind])
		}
	}
	for _, ev := range events {
		s, known := before[ev.Key]
		if !ev.Deleted || !known {
			continue
		}
		objects := []string{ledgerObject(ev.Key)}
		if s.node != "" {
			objects = append([]string{nodeObject(s.node)}, objects...)
		}
		if n := s.promises + l.state.heldBy(s.holders); n > 0 {
			l.found.violate("S12", objects, "its document was deleted while it had %d entries", n)
		}
		for _, kind := range slices.Sorted(maps.Keys(s.hw)) {
			if l.state.floor[kind] < s.hw[kind] {
				l.found.violate("S12", objects,
					"its document was deleted, but its high-water mark of %ss, %d, is not in the floor (%d)",
					kind, s.hw[kind], l.state.floor[kind])
			}
		}
	}
}
