package intake

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"

	"github.com/berth-scheduler/berth/services/queue/internal/decide"
)

// Facts turns what is read of the facts into inputs of the core. For one goroutine.
type Facts struct {
	store  *state.Store
	behind bool
	// barrier is the sequence to reach before the core is told of a rebuilt store: until
	// then the store is older than what the core may have known. The first store is told at
	// once: the core knows nothing, and learns from what follows what has happened since.
	barrier uint64
	begun   bool
	told    Told
}

// NewFacts returns a picture of no facts.
func NewFacts() *Facts {
	return &Facts{store: state.New(), behind: true, told: Told{Versions: map[events.Kind]uint64{}}}
}

// Ready says whether there are facts, and no older ones than the core has known.
func (f *Facts) Ready() bool { return f.begun && !f.behind }

// Snapshot is the state as of the last batch.
func (f *Facts) Snapshot() *state.Snapshot { return f.store.Snapshot() }

// Told are the highest resourceVersions in the facts that were read; a copy.
func (f *Facts) Told() Told { return f.told.clone() }

// Fold brings the state forward by one batch, and says what the core is to be told, once
// the state has caught up.
func (f *Facts) Fold(b follow.Batch) ([]decide.Input, error) {
	var ins []decide.Input
	if b.Reset {
		store, err := b.Store()
		if err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
		f.store = store
		f.barrier = b.Barrier
		f.behind = f.begun
		f.told.restart(store.Position())
		if !f.begun {
			f.begun = true
			ins = append(ins, f.reset())
		}
	}
	changes, err := f.store.Apply(b.Facts)
	if err != nil {
		return nil, fmt.Errorf("queue: apply facts: %w", err)
	}
	f.told.learn(b.Facts)
	position := corePosition(f.store.Position())
	switch {
	case f.behind && position.Sequence < f.barrier:
	case f.behind:
		f.behind = false
		ins = append(ins, f.reset())
	case len(b.Facts) > 0:
		ins = append(ins, decide.FactsApplied{Changes: changes, Objects: f.store.Snapshot(), Position: position})
	}
	return ins, nil
}

// reset tells the core of a store that does not follow from what it knew.
func (f *Facts) reset() decide.FactsReset {
	s := f.store.Snapshot()
	return decide.FactsReset{Pods: slices.Collect(s.Pods()), Objects: s, Position: corePosition(s.Position())}
}

func corePosition(p state.Position) decide.Position {
	progress, ok := p.Progress(events.KindPod)
	return decide.Position{Sequence: p.Sequence, Epoch: p.Epoch, PodProgress: progress, ProgressKnown: ok}
}
