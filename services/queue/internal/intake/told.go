package intake

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Told is how far Kubernetes has been, by the facts that this process has read: also by those behind one that cannot
// be read, and by those of an epoch that never ended, which leave a Position without progress.
type Told struct {
	// Epoch is that of the latest fact. Up to a generation's FactsAfter it is one of another history of Kubernetes.
	Epoch uint64
	// Versions are the highest resourceVersions, per kind, since the facts were last told anew.
	Versions map[events.Kind]uint64
}

// restart takes in what a position says from which the facts are read again.
func (t *Told) restart(p state.Position) {
	if p.Epoch > t.Epoch {
		t.Epoch = p.Epoch
		clear(t.Versions)
	}
	if p.Epoch < t.Epoch {
		return
	}
	for _, kind := range VersionedKinds {
		t.Versions[kind] = max(t.Versions[kind], p.Claimed(kind))
	}
}

// learn takes in facts. Those of earlier epochs are read again, and Versions count them.
func (t *Told) learn(facts []events.SequencedFact) {
	for i := range facts {
		f := &facts[i]
		if f.Op == events.OpUnreadable || f.Epoch < t.Epoch {
			continue
		}
		unseen := f.Op != events.OpEpochBegin // an epoch whose begin cannot be read may tell everything anew
		if f.Epoch > t.Epoch && (unseen || f.Anew()) {
			clear(t.Versions)
		}
		t.Epoch = f.Epoch
		switch f.Op {
		case events.OpUpsert, events.OpDelete, events.OpProgress:
			t.Versions[f.Kind] = max(t.Versions[f.Kind], f.Progress, f.ResourceVersion)
		}
	}
}

// clone is a copy for another goroutine.
func (t *Told) clone() Told { return Told{t.Epoch, maps.Clone(t.Versions)} }
