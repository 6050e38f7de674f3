package feed

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Seen holds the highest resourceVersions in the facts that a process has read. Unlike a Position, it also counts facts
// behind one that cannot be decoded, and facts of an epoch that has not ended.
type Seen struct {
	// Epoch is the epoch of the latest fact. If it is not later than the FactsAfter of the ledger's generation,
	// Kubernetes was restored from a backup since, and Versions does not describe the restored state.
	Epoch uint64
	// Versions holds the highest resourceVersions, by kind, since a leader last published all facts from scratch.
	Versions map[events.Kind]uint64
}

// restart applies the position of a snapshot, behind which the facts are read again.
func (s *Seen) restart(p state.Position) {
	if p.Epoch > s.Epoch {
		s.Epoch = p.Epoch
		clear(s.Versions)
	}
	if p.Epoch < s.Epoch {
		return
	}
	for _, kind := range state.Kinds() {
		s.Versions[kind] = max(s.Versions[kind], p.HighestSeen(kind))
	}
}

// learn applies facts. Facts of epochs before Epoch are read again; Versions already counts them.
func (s *Seen) learn(facts []events.SequencedFact) {
	for i := range facts {
		f := &facts[i]
		if f.Op == events.OpUnreadable || f.Epoch < s.Epoch {
			continue
		}
		// The begin of this epoch could not be decoded. It may have been one that publishes all facts from scratch.
		unseen := f.Op != events.OpEpochBegin
		if f.Epoch > s.Epoch && (unseen || f.StartsFromScratch()) {
			clear(s.Versions)
		}
		s.Epoch = f.Epoch
		switch f.Op {
		case events.OpUpsert, events.OpDelete, events.OpProgress:
			s.Versions[f.Kind] = max(s.Versions[f.Kind], f.Progress, f.ResourceVersion)
		}
	}
}

// clone returns a copy for another goroutine.
func (s *Seen) clone() Seen { return Seen{s.Epoch, maps.Clone(s.Versions)} }
