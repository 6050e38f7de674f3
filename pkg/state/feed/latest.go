package feed

import "github.com/berth-scheduler/berth/pkg/state"

// Latest has the snapshot of the last step that was taken, for a service that only looks objects up and derives
// nothing from changes. It is for use by one goroutine.
type Latest struct{ snapshot *state.Snapshot }

// NewLatest returns a Latest of the empty state.
func NewLatest() *Latest { return &Latest{state.New().Snapshot()} }

// Advance goes on to a step.
func (l *Latest) Advance(step Step) { l.snapshot = step.Snapshot }

// Snapshot returns the state after the last step.
func (l *Latest) Snapshot() *state.Snapshot { return l.snapshot }

// Position returns the position of that state.
func (l *Latest) Position() state.Position { return l.snapshot.Position() }
