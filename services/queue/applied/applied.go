package applied

import (
	"context"
	"sync"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Facts holds the newest applied state of the facts. It is safe for concurrent use.
type Facts struct {
	mu struct {
		sync.Mutex
		snapshot *state.Snapshot
		// changed is closed when snapshot is replaced.
		changed chan struct{}
	}
}

// New returns the state before the first fact: an empty snapshot at position 0.
func New() *Facts {
	f := &Facts{}
	f.mu.snapshot = state.New().Snapshot()
	f.mu.changed = make(chan struct{})
	return f
}

// Publish replaces the state. It never blocks on a reader.
func (f *Facts) Publish(s *state.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.snapshot = s
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
}

// Snapshot returns the newest state.
func (f *Facts) Snapshot() *state.Snapshot {
	s, _ := f.newest()
	return s
}

// Position returns the position of the newest state.
func (f *Facts) Position() state.Position { return f.Snapshot().Position() }

// Await waits until the newest state satisfies wanted, and returns that state. It checks the states that are newest
// when it looks, not every state that was published. It fails only if ctx ends first.
func (f *Facts) Await(ctx context.Context, wanted func(*state.Snapshot) bool) (*state.Snapshot, error) {
	for {
		s, changed := f.newest()
		if wanted(s) {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// newest returns the newest state and a channel that is closed when there is a newer one.
func (f *Facts) newest() (*state.Snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.snapshot, f.mu.changed
}
