package follow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// idleCheck is how long the follower waits for records before it asks the log whether it still holds what has
	// been read. A lost tail is detected then at the latest, in practice already with the first record of the
	// repair.
	idleCheck = 5 * time.Second
	// retryInitial and retryCap bound the wait between attempts while the log or the snapshots cannot be read;
	// retryFactor is its growth, retryJitter its spread.
	retryInitial = 50 * time.Millisecond
	retryCap     = 5 * time.Second
	retryFactor  = 2.0
	retryJitter  = 0.2
	// holePatience is how long records after a hole are read before reading starts over. For a record after an
	// unreadable one it cannot be checked whether it follows, so a lost tail may have removed the unreadable one
	// unnoticed.
	holePatience = time.Minute
	// retrySteps only has to be larger than the number of steps to reach retryCap.
	retrySteps = 20
)

// Batch is one step for the owner of a store.
type Batch struct {
	// Reset: discard the store and use Store's result, built from Snapshot (nil for an empty store that is
	// positioned at the sequence Behind) and Barrier. Such a batch carries no Facts.
	Reset    bool
	Snapshot []byte
	Behind   uint64
	Barrier  uint64
	// Unreadable explains, on a Reset, why the newest snapshot was not used.
	Unreadable error
	// Facts to apply, in order.
	Facts []events.SequencedFact
	// made holds the store that was built from Snapshot to check that it can be, until Store is called.
	made *atomic.Pointer[state.Store]
}

// Store builds the store that a Reset batch describes.
func (b Batch) Store() (*state.Store, error) {
	store, err := b.restored()
	if err != nil {
		return nil, fmt.Errorf("follow: snapshot of the facts: %w", err)
	}
	if b.Snapshot == nil {
		store.StartBehind(b.Behind)
	}
	store.SetBarrier(b.Barrier)
	return store, nil
}

// restored returns the store that was built to check the snapshot, once, and builds another one after that.
func (b Batch) restored() (*state.Store, error) {
	if b.made != nil {
		if store := b.made.Swap(nil); store != nil {
			return store, nil
		}
	}
	return state.Restore(b.Snapshot)
}

// Follower follows the stream of facts.
type Follower struct {
	// Retrying, if set before Run, is called with the reason when Run starts over or pauses, for logs and metrics.
	// It must not block.
	Retrying func(reason error)

	log   eventlog.Log
	snaps eventlog.Snapshots
}

// New returns a follower of log's facts that bootstraps from snaps.
func New(log eventlog.Log, snaps eventlog.Snapshots) *Follower {
	return &Follower{log: log, snaps: snaps}
}

// Run sends batches to out until ctx ends, and then returns nil. It waits for the receiver: out may be unbuffered.
// While the log cannot be read it retries, with growing delays.
func (f *Follower) Run(ctx context.Context, out chan<- Batch) error {
	run := follower{Follower: f, out: out}
	pause := newBackoff()
	for {
		run.delivered = false
		err := run.attempt(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if run.delivered {
			pause = newBackoff()
		}
		if f.Retrying != nil {
			f.Retrying(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.Step()):
		}
	}
}

// newBackoff returns the pauses from the beginning; it is renewed after an attempt that has delivered facts.
func newBackoff() wait.Backoff {
	return wait.Backoff{
		Duration: retryInitial, Factor: retryFactor, Jitter: retryJitter, Steps: retrySteps, Cap: retryCap,
	}
}

// follower is one Run in progress. It is a loop of attempts: each reads on from the history, or bootstraps if there
// is none, until something fails; the history decides what the failure means for the next attempt.
type follower struct {
	*Follower
	out     chan<- Batch
	history History
	// delivered: this attempt has sent facts, so the log is working.
	delivered bool
	// holeSince is when a hole was found, zero while there is none.
	holeSince time.Time
}

// attempt reads until something fails. It discards the history when only a bootstrap helps.
func (f *follower) attempt(ctx context.Context) error {
	if f.history.Next() == 0 {
		err := f.bootstrap(ctx)
		var gap *eventlog.ErrGap
		switch {
		case errors.As(err, &gap):
			f.history.Missing(gap)
			return err
		case err != nil:
			f.history.Forget()
			return err
		}
	}
	err := f.read(ctx)
	var gap *eventlog.ErrGap
	switch {
	case errors.As(err, &gap):
		f.history.Missing(gap)
	case errors.Is(err, ErrHistory):
		f.history.Forget()
	}
	return err
}

// bootstrap selects the newest usable snapshot and announces it. It reads the snapshot before the stream's last
// sequence, so that a valid one is never ahead of that.
func (f *follower) bootstrap(ctx context.Context) error {
	sequence, data, ok, err := f.snaps.Latest(ctx, eventlog.Facts)
	if err != nil {
		return err
	}
	if !ok {
		data = nil
	}
	last, err := f.log.Last(ctx, eventlog.Facts)
	if err != nil {
		return err
	}
	batch := f.history.Begin(sequence, data, last)
	f.holeSince = time.Time{}
	// Open once before announcing: if the stream no longer reaches back to the snapshot, the receiver must not
	// discard its store.
	reader, err := f.log.Read(ctx, eventlog.Facts, f.history.Next())
	if err != nil {
		return err
	}
	reader.Close()
	return f.send(ctx, batch)
}

// read delivers records from next on.
func (f *follower) read(ctx context.Context) error {
	reader, err := f.log.Read(ctx, eventlog.Facts, f.history.Next())
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := f.await(ctx, reader)
		if err != nil {
			return err
		}
		facts, err := f.history.Take(records)
		if err != nil {
			return err
		}
		if f.holeExpired() {
			return ErrHistory
		}
		if len(facts) == 0 {
			continue
		}
		if err := f.send(ctx, Batch{Facts: facts}); err != nil {
			return err
		}
		f.delivered = true
	}
}

// holeExpired reports whether it is time to check whether a hole still exists.
func (f *follower) holeExpired() bool {
	if _, there := f.history.Hole(); !there {
		f.holeSince = time.Time{}
		return false
	}
	if f.holeSince.IsZero() {
		f.holeSince = time.Now()
	}
	return time.Since(f.holeSince) >= holePatience
}

// await blocks for records; while there are none, it checks from time to time that the log still holds what has
// been read.
func (f *follower) await(ctx context.Context, reader eventlog.Reader) ([]eventlog.Record, error) {
	waiting, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	records, err := reader.Next(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return records, err
	}
	last, err := f.log.Last(ctx, eventlog.Facts)
	if err != nil {
		return nil, err
	}
	return nil, f.history.Check(last)
}

// send delivers a batch, or returns the reason why the context ended.
func (f *follower) send(ctx context.Context, b Batch) error {
	select {
	case f.out <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
