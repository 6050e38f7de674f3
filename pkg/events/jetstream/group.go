package jetstream

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-scheduler/berth/pkg/events"
)

const (
	// groupsInFlight is how many shared batches one process has under way per stream: one is
	// written while the next is on the wire. More would only make them smaller.
	groupsInFlight = 2
	// maxGroupBytes ends a shared batch early, so that one caller with large messages does
	// not make everyone wait.
	maxGroupBytes = 1 << 20
)

// group gathers the unfenced appends of concurrent callers into shared batches, since the
// server pays for durability by batch. There is no goroutine and no delay: a caller that
// gets a slot sends everything that waits, its own messages among it; the others wait for
// that, and whoever is left over takes the next slot.
type group struct {
	slots chan struct{}

	mu struct {
		sync.Mutex
		waiting []*pending
	}
}

// pending is one caller's append. last and err may be read once done is closed.
type pending struct {
	msgs []events.Message
	size int
	done chan struct{}
	last uint64
	err  error
}

func newGroup() *group { return &group{slots: make(chan struct{}, groupsInFlight)} }

// append stores msgs, alone or with those of others, and returns their last sequence.
func (g *group) append(ctx context.Context, l *Log, name events.Stream, msgs []events.Message) (uint64, error) {
	p := g.enqueue(msgs)
	select {
	case <-p.done:
		return p.last, p.err
	case g.slots <- struct{}{}:
		for g.waits(p) {
			// Others' messages are among these: they must not fail because this caller gave up.
			// publish sets the deadline.
			flush(context.WithoutCancel(ctx), l, name, g.take())
		}
		<-g.slots
	case <-ctx.Done():
		if g.withdraw(p) {
			return 0, ctx.Err()
		}
	case <-l.closed:
		return 0, events.ErrClosed
	}
	// Somebody has taken the append; if not this caller, its answer may still be under way.
	select {
	case <-p.done:
		return p.last, p.err
	case <-ctx.Done():
		return 0, fmt.Errorf("jetstream: append to stream %s: outcome unknown: %w", name, ctx.Err())
	}
}

func (g *group) enqueue(msgs []events.Message) *pending {
	p := &pending{msgs: msgs, done: make(chan struct{})}
	for i := range msgs {
		p.size += msgs[i].Size()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.waiting = append(g.mu.waiting, p)
	return p
}

// take removes from the front what goes into one batch; whole appends, at least one.
func (g *group) take() []*pending {
	g.mu.Lock()
	defer g.mu.Unlock()
	var taken, count, size int
	for _, p := range g.mu.waiting {
		count += len(p.msgs)
		size += p.size
		if taken > 0 && (count > events.MaxBatch || size > maxGroupBytes) {
			break
		}
		taken++
	}
	batch := slices.Clone(g.mu.waiting[:taken])
	g.mu.waiting = slices.Delete(g.mu.waiting, 0, taken)
	return batch
}

// withdraw removes an append that nobody has taken yet.
func (g *group) withdraw(p *pending) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.mu.waiting, p)
	if i < 0 {
		return false
	}
	g.mu.waiting = slices.Delete(g.mu.waiting, i, i+1)
	return true
}

// waits reports whether nobody has taken the append yet.
func (g *group) waits(p *pending) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.mu.waiting, p)
}

// flush stores a batch and tells each of its callers.
func flush(ctx context.Context, l *Log, name events.Stream, batch []*pending) {
	if len(batch) == 0 {
		return
	}
	var msgs []events.Message
	for _, p := range batch {
		msgs = append(msgs, p.msgs...)
	}
	last, err := l.publish(ctx, name, events.AnySequence, msgs)
	for _, p := range slices.Backward(batch) {
		p.last, p.err = last, err
		last -= uint64(len(p.msgs))
		close(p.done)
	}
}
