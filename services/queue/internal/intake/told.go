package intake

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Told is how far Kubernetes has been, by the facts that were read: also by those behind one that cannot be read, and
// by those of an epoch that never ended, which leave a Position without progress.
type Told struct {
	// Epoch is that of the last fact. Before a generation's FactsAfter they were facts of another history.
	Epoch uint64
	// Versions are the highest resourceVersions, per kind.
	Versions map[events.Kind]uint64
}

// restart begins with what a position says.
func (t *Told) restart(p state.Position) {
	t.Epoch, t.Versions = p.Epoch, map[events.Kind]uint64{}
	for _, kind := range VersionedKinds {
		t.Versions[kind] = p.Claimed(kind)
	}
}

// learn takes in the facts behind a sequence.
func (t *Told) learn(facts []events.SequencedFact, behind uint64) {
	for i := range facts {
		f := &facts[i]
		switch {
		case f.Sequence <= behind || f.Op == events.OpUnreadable:
			continue
		case f.Anew():
			clear(t.Versions)
		case f.Op == events.OpUpsert, f.Op == events.OpDelete, f.Op == events.OpProgress:
			t.Versions[f.Kind] = max(t.Versions[f.Kind], f.Progress, f.ResourceVersion)
		}
		t.Epoch = f.Epoch
	}
}

// clone is a copy for another goroutine.
func (t *Told) clone() Told { return Told{t.Epoch, maps.Clone(t.Versions)} }
