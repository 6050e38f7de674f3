package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// stub is the remainder of the document of a node, a disruption budget, a volume or a pool when it is deleted: its
// high-water marks, and the number of promises that it still had. holders are those of a volume or a pool; each
// counts for as long as the ledger has its reservation.
type stub struct {
	node     string
	hw       map[string]uint64
	promises int
	holders  []ledger.Holder
}

// stubOf decodes the value of a key. It returns false for a key of another kind, and for a value that cannot be
// decoded, which is reported elsewhere.
func stubOf(ev LedgerEvent) (stub, bool) {
	switch {
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		d, err := codec.DecodeNodeDoc(ev.KV())
		return stub{node: d.NodeName, hw: d.HW, promises: len(d.Entries)}, err == nil
	case strings.HasPrefix(ev.Key, ledger.PrefixBudget):
		b, err := codec.DecodeBudget(ev.KV())
		return stub{hw: b.HW, promises: len(b.Claims)}, err == nil
	case strings.HasPrefix(ev.Key, ledger.PrefixVolume), strings.HasPrefix(ev.Key, ledger.PrefixPool):
		x, err := codec.DecodeExclusive(ev.KV())
		return stub{hw: x.HW, holders: x.Holders}, err == nil
	}
	return stub{}, false
}

// learnStub records the document of a key, and the floor.
func (a *replay) learnStub(ev LedgerEvent) {
	if ev.Key == ledger.KeyFloor {
		f, err := codec.DecodeFloor(ev.KV())
		if err != nil {
			a.badValue(ev, err)
			return
		}
		a.floor = f.HW
		return
	}
	delete(a.stubs, ev.Key)
	if s, ok := stubOf(ev); ok && !ev.Deleted {
		a.stubs[ev.Key] = s
	}
}

// checkCollected checks that a document is deleted only when it promises nothing, that the floor includes its
// high-water marks from that revision on, and that the floor never decreases (S12).
func (a *replay) checkCollected(events []LedgerEvent, before map[string]stub, floor map[string]uint64) {
	for _, kind := range slices.Sorted(maps.Keys(floor)) {
		if a.floor[kind] < floor[kind] {
			a.violate("S12", []string{ledgerObject(ledger.KeyFloor)}, "its high-water mark of %ss decreased from %d to %d",
				kind, floor[kind], a.floor[kind])
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
		if n := s.promises + a.reserved(s.holders); n > 0 {
			a.violate("S12", objects, "its document was deleted while it had %d entries", n)
		}
		for _, kind := range slices.Sorted(maps.Keys(s.hw)) {
			if a.floor[kind] < s.hw[kind] {
				a.violate("S12", objects, "its document was deleted, but its high-water mark of %ss, %d, is not in the floor (%d)",
					kind, s.hw[kind], a.floor[kind])
			}
		}
	}
}

// reserved counts the holders whose reservation is in the ledger.
func (a *replay) reserved(holders []ledger.Holder) (n int) {
	for _, h := range holders {
		for _, e := range a.docs[h.NodeUID].Entries {
			if e.PodUID == h.PodUID && e.Token == h.Token {
				n++
			}
		}
	}
	return n
}
