package queue

import (
	"context"
	"sync"

	"github.com/berth-scheduler/berth/pkg/state"
)

// applied holds the newest state that the deciding goroutine has applied from the log, for goroutines that wait for
// it. It is safe for concurrent use.
type applied struct {
	mu struct {
		sync.Mutex
		snapshot *state.Snapshot
		changed  chan struct{}
	}
}

func newApplied() *applied {
	a := &applied{}
	a.mu.snapshot = state.New().Snapshot()
	a.mu.changed = make(chan struct{})
	return a
}

func (a *applied) publish(s *state.Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.snapshot = s
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
}

// snapshot returns the newest state and a channel that is closed when there is a newer one.
func (a *applied) snapshot() (*state.Snapshot, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.snapshot, a.mu.changed
}

// await waits until the newest state satisfies wanted, and returns that state.
func (a *applied) await(ctx context.Context, wanted func(*state.Snapshot) bool) (*state.Snapshot, error) {
	for {
		s, changed := a.snapshot()
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
