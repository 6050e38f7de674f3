package intake

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"

	"github.com/berth-scheduler/berth/services/queue/internal/decide"
	"github.com/berth-scheduler/berth/services/queue/internal/waiting"
)

// Facts turns batches of facts into inputs of the core. It is for one goroutine.
type Facts struct {
	store  *state.Store
	behind bool
	// barrier is the sequence to reach before the core gets a rebuilt store: until then the store is older than what
	// the core may have known. The first store is passed on at once: the core knows nothing yet, and learns of later
	// changes from the facts that follow.
	barrier uint64
	begun   bool
	told    Told
}

// NewFacts returns an empty state.
func NewFacts() *Facts {
	return &Facts{store: state.New(), behind: true, told: Told{Versions: map[events.Kind]uint64{}}}
}

// Ready reports whether there are facts, and none older than what the core has known.
func (f *Facts) Ready() bool { return f.begun && !f.behind }

// Snapshot returns the state as of the last batch.
func (f *Facts) Snapshot() *state.Snapshot { return f.store.Snapshot() }

// Told returns a copy of the highest resourceVersions in the facts that were read.
func (f *Facts) Told() Told { return f.told.clone() }

// Fold applies one batch to the state and returns the inputs for the core, once the state has caught up.
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

// reset returns the input for a store that does not continue from what the core knew.
func (f *Facts) reset() decide.FactsReset {
	s := f.store.Snapshot()
	return decide.FactsReset{Pods: slices.Collect(s.Pods()), Objects: s, Position: corePosition(s.Position())}
}

func corePosition(p state.Position) waiting.Position {
	progress, ok := p.Progress(events.KindPod)
	return waiting.Position{Sequence: p.Sequence, Epoch: p.Epoch, PodProgress: progress, ProgressKnown: ok}
}
