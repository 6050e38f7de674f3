package commit

import (
	"context"
	"sync/atomic"
)

// pace lets events use what the API server has to spare: each costs about as much as the bind it
// tells about. While binds and other changes keep at least busyFrom workers at work, events wait;
// once eventsPatience wait, they are written all the same, so that none has to be dropped.
type pace struct {
	busyFrom        int32
	changes, writes atomic.Int32
	// wake holds a token after anything that may have ended a wait.
	wake chan struct{}
}

func newPace(workers int) *pace {
	return &pace{busyFrom: int32(max(1, workers/2)), wake: make(chan struct{}, 1)}
}

// change begins a bind or another change; the function that it returns ends it.
func (p *pace) change() (end func()) {
	p.changes.Add(1)
	return func() {
		p.changes.Add(-1)
		p.nudge()
	}
}

// write begins the write of an event; the function that it returns ends it.
func (p *pace) write() (end func()) {
	p.writes.Add(1)
	return func() {
		p.writes.Add(-1)
		p.nudge()
	}
}

func (p *pace) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// may says whether an event may be written while that many wait.
func (p *pace) may(waiting int) bool {
	return p.writes.Load() < eventWriters && (p.changes.Load() < p.busyFrom || waiting >= eventsPatience)
}

// wait until an event may be written, or ctx ends: then false. waiting is how many wait now.
func (p *pace) wait(ctx context.Context, waiting func() int) bool {
	for !p.may(waiting()) {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
