package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

const (
	// MaxPending is how many steps may wait for one reader. A step has the facts of one read of the log, so that this is
	// some seconds of the fastest log that has been measured; each holds on to what its snapshot alone has.
	MaxPending = 1024
	// batchBuffer is how many batches may wait to be folded.
	batchBuffer = 16
	// retryInitial and retryCap bound the wait between attempts while the end of the log cannot be read; retryFactor is
	// its growth, retryJitter its spread. retrySteps only has to be larger than the number of steps to retryCap.
	retryInitial = 50 * time.Millisecond
	retryCap     = 5 * time.Second
	retryFactor  = 2.0
	retryJitter  = 0.2
	retrySteps   = 20
)

// Step is one change of the state, for one reader.
type Step struct {
	// Reset means that Snapshot does not follow from the one before: the reader discards what it derived from that. Such
	// a step has no Changes and no Facts.
	Reset bool
	// Unreadable explains, on a Reset, why the newest stored snapshot of the facts was not used; nil if it was.
	Unreadable error
	// Snapshot is the state after the step. It never changes.
	Snapshot *state.Snapshot
	// Changes lists what changed, and Facts the facts that say so, in order. Both are shared by all readers, which must
	// not change them.
	Changes state.Changes
	Facts   []events.SequencedFact
	// Barrier is the sequence that Snapshot must reach before there is progress; see state.Store.SetBarrier.
	Barrier uint64
}

// Folder folds batches into steps. It is for use by one goroutine.
type Folder struct{ store *state.Store }

// NewFolder returns a folder with an empty state.
func NewFolder() *Folder { return &Folder{store: state.New()} }

// Snapshot returns the state after the last batch.
func (f *Folder) Snapshot() *state.Snapshot { return f.store.Snapshot() }

// Fold applies one batch. An error means that the batch does not follow from the ones before, or that its snapshot
// cannot be read; nothing has changed then.
func (f *Folder) Fold(b follow.Batch) (Step, error) {
	step := Step{Reset: b.Reset, Unreadable: b.Unreadable, Facts: b.Facts, Barrier: b.Barrier}
	if b.Reset {
		store, err := b.Store()
		if err != nil {
			return Step{}, err
		}
		f.store = store
	}
	changes, err := f.store.Apply(b.Facts)
	if err != nil {
		return Step{}, err
	}
	step.Changes, step.Snapshot = changes, f.store.Snapshot()
	return step, nil
}

// Feed follows the facts for the services of one process. Its methods are safe for concurrent use; Run must run once.
type Feed struct {
	log      events.Log
	follower *follow.Follower
	mu       struct {
		sync.Mutex
		// newest is the last snapshot, nil before the first Reset; unreadable belongs to the last Reset.
		newest     *state.Snapshot
		unreadable error
		readers    map[*reader]struct{}
	}
}

// New returns a feed of log's facts that starts from the snapshots in snaps. Nothing runs yet.
func New(log events.Log, snaps events.Snapshots) *Feed {
	f := &Feed{log: log, follower: follow.New(log, snaps)}
	f.mu.readers = map[*reader]struct{}{}
	return f
}

// Run follows the log until ctx ends, and then returns nil. It returns an error when the facts cannot be applied.
func (f *Feed) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan follow.Batch, batchBuffer)
	g.Go(func() error { return f.follower.Run(ctx, batches) })
	g.Go(func() error {
		folder := NewFolder()
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				step, err := folder.Fold(b)
				if err != nil {
					return fmt.Errorf("facts: %w", err)
				}
				f.publish(step)
			}
		}
	})
	return g.Wait()
}

// publish adds a step to what waits for each reader.
func (f *Feed) publish(step Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.newest = step.Snapshot
	if step.Reset {
		f.mu.unreadable = step.Unreadable
	}
	for r := range f.mu.readers {
		r.add(step)
	}
}

// Follow sends steps to out until ctx ends, and then returns nil. out may be unbuffered. While the end of the log
// cannot be read, it retries with growing delays.
func (f *Feed) Follow(ctx context.Context, out chan<- Step) error {
	r := f.subscribe()
	defer f.unsubscribe(r)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.added:
		}
		for _, step := range r.take() {
			if !f.deliver(ctx, r, step, out) {
				return nil
			}
		}
	}
}

// deliver sends one step, a Reset with a new barrier; false if ctx ended first.
func (f *Feed) deliver(ctx context.Context, r *reader, step Step, out chan<- Step) bool {
	if step.Reset && !f.readEnd(ctx, r) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case out <- step.behind(r.barrier):
		return true
	}
}

// readEnd sets a reader's barrier to the log's last sequence; false if ctx ended first.
func (f *Feed) readEnd(ctx context.Context, r *reader) bool {
	pause := wait.Backoff{
		Duration: retryInitial, Factor: retryFactor, Jitter: retryJitter, Steps: retrySteps, Cap: retryCap,
	}
	for {
		last, err := f.log.Last(ctx, events.Facts)
		if err == nil {
			r.barrier = last
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause.Step()):
		}
	}
}

func (f *Feed) subscribe() *reader {
	r := &reader{added: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.readers[r] = struct{}{}
	if f.mu.newest != nil {
		r.add(Step{Reset: true, Snapshot: f.mu.newest, Unreadable: f.mu.unreadable})
	}
	return r
}

func (f *Feed) unsubscribe(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.readers, r)
}

// behind returns the step with a barrier of the reader's own.
func (s Step) behind(barrier uint64) Step {
	s.Barrier = max(s.Barrier, barrier)
	s.Snapshot = s.Snapshot.Behind(s.Barrier)
	s.Changes.Position = s.Snapshot.Position()
	return s
}

// reader is one Follow in progress.
type reader struct {
	// barrier belongs to the goroutine of Follow.
	barrier uint64
	// added has a value while steps wait.
	added chan struct{}
	mu    struct {
		sync.Mutex
		pending []Step
	}
}

// add appends a step to those that wait. A Reset replaces them, as does one too many.
func (r *reader) add(step Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.pending) >= MaxPending {
		step = Step{Reset: true, Snapshot: step.Snapshot, Unreadable: step.Unreadable}
	}
	if step.Reset {
		r.mu.pending = r.mu.pending[:0:0]
	}
	r.mu.pending = append(r.mu.pending, step)
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// take returns the steps that wait.
func (r *reader) take() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := slices.Clip(r.mu.pending)
	r.mu.pending = nil
	return steps
}
