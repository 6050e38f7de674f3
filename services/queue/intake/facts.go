package intake

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"

	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Facts turns steps of the facts into inputs of the core. It is for one goroutine.
//
// A store that is rebuilt, because the log has lost a tail or retention has cut it, starts from an older state and then
// catches up. The core must not go back in between: it would offer pods that it knows to be bound. So the steps until
// the barrier are withheld, and then the core gets the whole state at once (FactsReset).
type Facts struct {
	facts *state.Snapshot
	// behind means that the state is older than what the core has known, or that there is no state yet.
	behind bool
	// barrier is the sequence to reach before the core gets a rebuilt state: until then it is older than what the core
	// may have known. The first state is passed on at once: the core knows nothing yet, and learns of later changes from
	// the steps that follow.
	barrier uint64
	started bool
	seen    feed.Seen
}

// NewFacts returns an empty state.
func NewFacts() *Facts { return &Facts{facts: state.New().Snapshot(), behind: true} }

// Ready reports whether there are facts, and none older than what the core has known.
func (f *Facts) Ready() bool { return f.started && !f.behind }

// Snapshot returns the state as of the last step.
func (f *Facts) Snapshot() *state.Snapshot { return f.facts }

// Seen returns the highest resourceVersions in the facts that were read. They are not to be changed.
func (f *Facts) Seen() feed.Seen { return f.seen }

// Take applies one step and returns the inputs for the core, once the state has caught up.
func (f *Facts) Take(step feed.Step) []decide.Input {
	f.facts, f.seen = step.Snapshot, step.Seen
	if step.Reset {
		f.barrier = step.Barrier
		f.behind = f.started
		if !f.started {
			f.started = true
			return []decide.Input{f.reset()}
		}
	}
	position := corePosition(f.facts.Position())
	switch {
	case f.behind && position.Sequence < f.barrier:
		return nil
	case f.behind:
		f.behind = false
		return []decide.Input{f.reset()}
	}
	return []decide.Input{decide.FactsApplied{Changes: step.Changes, Objects: f.facts, Position: position}}
}

// reset returns the input for a state that does not continue from what the core knew.
func (f *Facts) reset() decide.FactsReset {
	return decide.FactsReset{
		Pods: slices.Collect(f.facts.Pods()), Objects: f.facts, Position: corePosition(f.facts.Position()),
	}
}

// corePosition returns what the core uses of a position: of the progress only that of pods.
func corePosition(p state.Position) waiting.Position {
	progress, ok := p.Progress(events.KindPod)
	return waiting.Position{Sequence: p.Sequence, Epoch: p.Epoch, PodProgress: progress, ProgressKnown: ok}
}
