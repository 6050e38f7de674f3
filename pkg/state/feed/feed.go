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
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

const (
	// maxPending is how many steps may wait for one reader, and maxMerged how many changes one of them may have: steps
	// that wait become one, so that a reader which is behind catches up in large steps, as a reader of the log does. A
	// reader that is behind by more than a million changes starts again from the newest snapshot.
	maxPending = 1024
	maxMerged  = 1024
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
	// a step has no Changes.
	Reset bool
	// Unreadable explains, on a Reset, why the newest stored snapshot of the facts was not used; nil if it was.
	Unreadable error
	// Snapshot is the state after the step. It never changes.
	Snapshot *state.Snapshot
	// Changes lists what changed, and Seen the highest resourceVersions so far. All readers share them, and must not
	// change them.
	Changes state.Changes
	Seen    Seen
	// Barrier is the sequence that Snapshot must reach before there is progress; see state.Store.SetBarrier.
	Barrier uint64

	// merged means that this step was made of several, and that its Changes are this reader's alone.
	merged bool
}

// Folder folds batches into steps. It is for use by one goroutine.
type Folder struct {
	store *state.Store
	seen  Seen
}

// NewFolder returns a folder with an empty state.
func NewFolder() *Folder {
	return &Folder{store: state.New(), seen: Seen{Versions: map[events.Kind]uint64{}}}
}

// Snapshot returns the state after the last batch.
func (f *Folder) Snapshot() *state.Snapshot { return f.store.Snapshot() }

// Fold applies one batch. An error means that the batch does not follow from the ones before, or that its snapshot
// cannot be read; nothing has changed then.
func (f *Folder) Fold(b follow.Batch) (Step, error) {
	step := Step{Reset: b.Reset, Unreadable: b.Unreadable, Barrier: b.Barrier}
	if b.Reset {
		store, err := b.Store()
		if err != nil {
			return Step{}, err
		}
		f.store = store
		f.seen.restart(store.Position())
	}
	changes, err := f.store.Apply(b.Facts)
	if err != nil {
		return Step{}, err
	}
	f.seen.learn(b.Facts)
	step.Changes, step.Snapshot = changes, f.store.Snapshot()
	step.Seen = f.seen.clone()
	return step, nil
}

// FoldAll applies batches in order, up to the first error.
func (f *Folder) FoldAll(batches ...follow.Batch) (steps []Step, err error) {
	for _, b := range batches {
		step, err := f.Fold(b)
		if err != nil {
			return steps, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// Feed follows the facts for the services of one process. It reads the log while at least one reader follows it. It
// is safe for concurrent use.
//
// Three goroutines take part: one reads records (package follow), one folds them and publishes steps to all
// readers, and each reader's own delivers its steps. Publishing never waits for a reader.
type Feed struct {
	log   eventlog.Log
	snaps eventlog.Snapshots
	mu    struct {
		sync.Mutex
		// reading is nil while there is no follower.
		reading *reading
	}
}

// New returns a feed of log's facts that starts from the snapshots in snaps.
func New(log eventlog.Log, snaps eventlog.Snapshots) *Feed { return &Feed{log: log, snaps: snaps} }

// Follow sends steps to out until ctx ends, and then returns nil. out may be unbuffered. While the log cannot be read,
// it retries with growing delays. It returns an error when the facts cannot be applied.
func (f *Feed) Follow(ctx context.Context, out chan<- Step) error {
	from, r := f.subscribe(ctx)
	defer f.unsubscribe(from, r)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-from.done:
			return from.err
		case <-r.added:
		}
		for _, step := range r.take() {
			if !f.deliver(ctx, r, step, out) {
				return nil
			}
		}
	}
}

// deliver sends one step, a Reset with a new barrier; false if ctx ended first. It holds back what the log has lost: a
// snapshot ahead of the log's end is of another history, and the follower is about to start again.
func (f *Feed) deliver(ctx context.Context, r *reader, step Step, out chan<- Step) bool {
	if step.Reset {
		if !f.readEnd(ctx, r) {
			return false
		}
		r.lost = r.barrier < step.Snapshot.Position().Sequence
	}
	if r.lost {
		return true
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
		last, err := f.log.Last(ctx, eventlog.Facts)
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

// subscribe adds a reader to what reads the log, which it starts for the first one.
func (f *Feed) subscribe(ctx context.Context) (*reading, *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.reading == nil {
		f.mu.reading = f.start(context.WithoutCancel(ctx))
	}
	return f.mu.reading, f.mu.reading.subscribe()
}

// start begins to read the log. It runs until the last reader is gone, beyond the first reader's context.
func (f *Feed) start(ctx context.Context) *reading {
	ctx, stop := context.WithCancel(ctx)
	r := &reading{stop: stop, done: make(chan struct{})}
	r.mu.readers = map[*reader]struct{}{}
	go func() { //nolint:goroutine // the last reader waits for its end: no service's errgroup outlives the others
		defer close(r.done)
		r.err = r.run(ctx, follow.New(f.log, f.snaps))
	}()
	return r
}

// unsubscribe removes a reader. When it was the last one, the log is read no longer when unsubscribe returns.
func (f *Feed) unsubscribe(from *reading, r *reader) {
	f.mu.Lock()
	last := from.unsubscribe(r)
	if last && f.mu.reading == from {
		f.mu.reading = nil
	}
	f.mu.Unlock()
	if last {
		from.stop()
		<-from.done
	}
}

// reading reads the log from the first reader's arrival to the last one's departure.
type reading struct {
	stop func()
	// done is closed when it has ended; err explains why then.
	done chan struct{}
	err  error
	mu   struct {
		sync.Mutex
		// newest is a Reset to the last snapshot, which is nil before the first one.
		newest  Step
		readers map[*reader]struct{}
	}
}

// run reads until ctx ends, and then returns nil. It returns an error when the facts cannot be applied.
func (r *reading) run(ctx context.Context, follower *follow.Follower) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan follow.Batch, batchBuffer)
	g.Go(func() error { return follower.Run(ctx, batches) })
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
				r.publish(step)
			}
		}
	})
	return g.Wait()
}

// publish adds a step to what waits for each reader.
func (r *reading) publish(step Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unreadable := r.mu.newest.Unreadable
	if step.Reset {
		unreadable = step.Unreadable
	}
	r.mu.newest = Step{Reset: true, Snapshot: step.Snapshot, Seen: step.Seen, Unreadable: unreadable}
	for reader := range r.mu.readers {
		reader.add(step, r.mu.newest)
	}
}

// subscribe adds a reader. If there is a snapshot already, it is the reader's first step; else the first batch is.
func (r *reading) subscribe() *reader {
	reader := &reader{added: make(chan struct{}, 1), maxPending: maxPending, maxMerged: maxMerged}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.readers[reader] = struct{}{}
	if r.mu.newest.Snapshot != nil {
		reader.add(r.mu.newest, r.mu.newest)
	}
	return reader
}

// unsubscribe removes a reader, and reports whether it was the last one.
func (r *reading) unsubscribe(reader *reader) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.readers, reader)
	return len(r.mu.readers) == 0
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
	maxPending, maxMerged int
	// barrier and lost belong to the goroutine of Follow. lost means that the log has lost what the last Reset was made
	// of.
	barrier uint64
	lost    bool
	// added has a value while steps wait.
	added chan struct{}
	mu    struct {
		sync.Mutex
		pending []Step
	}
}

// add makes a step wait. A Reset replaces the steps that wait; if too many wait, newest does, which is a Reset to the
// same snapshot.
func (r *reader) add(step, newest Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.mu.pending) - 1
	switch {
	case step.Reset:
		r.mu.pending = []Step{step}
	case last >= 0 && r.mu.pending[last].size() < r.maxMerged:
		r.mu.pending[last] = r.mu.pending[last].then(step)
	case last+1 < r.maxPending:
		r.mu.pending = append(r.mu.pending, step)
	default:
		newest.Unreadable = nil // it was reported with the Reset that it belongs to
		r.mu.pending = []Step{newest}
	}
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// size returns how many changes a step has.
func (s Step) size() int { return len(s.Changes.Pods) + len(s.Changes.Nodes) + len(s.Changes.Others) }

// then returns one step for two. A Reset stays one, to the later snapshot.
func (s Step) then(next Step) Step {
	if !s.Reset && !s.merged {
		// Other readers share the slices; from here on this step has its own.
		s.Changes.Pods = slices.Clone(s.Changes.Pods)
		s.Changes.Nodes = slices.Clone(s.Changes.Nodes)
		s.Changes.Others = slices.Clone(s.Changes.Others)
		s.merged = true
	}
	if !s.Reset {
		s.Changes.Pods = append(s.Changes.Pods, next.Changes.Pods...)
		s.Changes.Nodes = append(s.Changes.Nodes, next.Changes.Nodes...)
		s.Changes.Others = append(s.Changes.Others, next.Changes.Others...)
	}
	s.Snapshot, s.Seen = next.Snapshot, next.Seen
	s.Changes.Position = next.Changes.Position
	return s
}

// take returns the steps that wait.
func (r *reader) take() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.mu.pending
	r.mu.pending = nil
	return steps
}
