package share

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// retainedBatches and retainedEvents are how many of the newest batches are kept for watches that begin, and how
	// many events they may have: enough for the time between a list and the watch that follows it while the ledger
	// changes a few hundred times a second.
	retainedBatches = 256
	retainedEvents  = 64 * ledger.MaxTxnOps
	// watchBuffer is how many batches may wait for one watch. It is more than retainedBatches, which a watch begins with.
	watchBuffer = 1024
)

// ErrBehind is why a watch breaks whose owner takes too long. errRestarted is why one breaks whose revisions the
// ledger still has, when another watch has requested revisions that were compacted.
var (
	ErrBehind    = errors.New("ledger: the watch is behind by too many changes; watch again")
	errRestarted = errors.New("ledger: the shared watch was restarted; watch again")
)

// Backend is the store behind a Store, which passes calls on to it.
type Backend interface {
	ledger.Store
	ledger.Elections
}

// Store is a ledger.Store for all services of a process. It is safe for concurrent use. The events that its watches
// deliver are shared: they must not be changed.
type Store struct {
	Backend
	mu struct {
		sync.Mutex
		// source is nil while no watch is served.
		source *source
		// broken is the source before, if it broke and the next one can go on from it: all watches that it served begin
		// again, each where it was.
		broken *source
	}
}

// New returns a store that passes calls on to backend.
func New(backend Backend) *Store { return &Store{Backend: backend} }

// Watch implements ledger.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	if prefix != "" || ctx.Err() != nil {
		return s.Backend.Watch(ctx, prefix, from)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.mu.source
	if src == nil || from < src.first {
		// One that begins before what is kept has a source of its own, which later watches are served from. The source
		// before goes on until its last watch ends.
		src = s.start(context.WithoutCancel(ctx), from)
		s.mu.source = src
	}
	w := &watch{from: from, batches: make(chan ledger.EventBatch, watchBuffer)}
	for _, b := range src.retained {
		w.add(b)
	}
	src.watches[w] = struct{}{}
	w.forget = context.AfterFunc(ctx, func() { s.removeWatch(src, w) })
	return w
}

// source is the one watch that others are served from.
type source struct {
	// stop ends the watch of the store.
	stop func()
	// begun is where the watch of the store begins.
	begun int64
	// first is the first revision of which every event is in kept or still to come.
	first    int64
	retained []ledger.EventBatch
	// events counts those in kept.
	events  int
	watches map[*watch]struct{}
}

// start begins a source where the broken one ended, or at from if that is not possible.
func (s *Store) start(ctx context.Context, from int64) *source {
	ctx, stop := context.WithCancel(ctx)
	src := &source{stop: stop, begun: from, first: from, watches: map[*watch]struct{}{}}
	if last := s.mu.broken; last != nil && last.first <= from && from <= last.next() {
		src.first, src.retained = last.first, last.retained
		src.events = last.events
		src.begun = last.next()
	}
	go s.run(src, s.Backend.Watch(ctx, "", src.begun)) //nolint:goroutine // it ends with the last watch that it serves
	return src
}

// run passes batches on until the source breaks, which breaks all watches that are served from it.
func (s *Store) run(src *source, from ledger.Watch) {
	for b := range from.Batches() {
		s.mu.Lock()
		src.publish(b)
		s.stopUnused(src)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	src.stop()
	for w := range src.watches {
		err := from.Err()
		if errors.Is(err, ledger.ErrCompacted) && w.from > src.begun {
			err = errRestarted
		}
		src.end(w, err)
	}
	if s.mu.source == src {
		s.mu.source, s.mu.broken = nil, src
	}
	var anew *ledger.StoreReplacedError
	if err := from.Err(); errors.Is(err, ledger.ErrCompacted) || errors.As(err, &anew) {
		s.mu.broken = nil
	}
}

// next returns the revision after the last one that was read.
func (src *source) next() int64 {
	if len(src.retained) == 0 {
		return src.first
	}
	return src.retained[len(src.retained)-1].Revision + 1
}

// publish keeps a batch and hands it to each watch. Those that have no room for it end.
func (src *source) publish(b ledger.EventBatch) {
	src.retained = append(src.retained, b)
	src.events += len(b.Events)
	for len(src.retained) > retainedBatches || src.events > retainedEvents && len(src.retained) > 1 {
		src.first = src.retained[0].Revision + 1
		src.events -= len(src.retained[0].Events)
		src.retained = slices.Delete(src.retained, 0, 1)
	}
	for w := range src.watches {
		if !w.add(b) {
			src.end(w, ErrBehind)
		}
	}
}

// end closes a watch.
func (src *source) end(w *watch, err error) {
	delete(src.watches, w)
	w.forget()
	w.err = err
	close(w.batches)
}

// removeWatch ends a watch whose context has ended, and the source with the last one.
func (s *Store) removeWatch(src *source, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, served := src.watches[w]; !served {
		return
	}
	src.end(w, nil)
	s.stopUnused(src)
}

// stopUnused stops a source that serves no watch any more.
func (s *Store) stopUnused(src *source) {
	if len(src.watches) > 0 {
		return
	}
	src.stop()
	if s.mu.source == src {
		s.mu.source, s.mu.broken = nil, nil
	}
}

// watch is one that is served from the source. The store's lock guards it until batches is closed.
type watch struct {
	from    int64
	batches chan ledger.EventBatch
	forget  func() bool
	err     error
}

// Batches implements ledger.Watch.
func (w *watch) Batches() <-chan ledger.EventBatch { return w.batches }

// Err implements ledger.Watch.
func (w *watch) Err() error { return w.err }

// add hands a batch over, without what comes before from; false if there is no room for it.
func (w *watch) add(b ledger.EventBatch) bool {
	if b.Revision < w.from {
		return true
	}
	begin := slices.IndexFunc(b.Events, func(e ledger.Event) bool { return e.ModRevision >= w.from })
	if begin < 0 {
		begin = len(b.Events)
	}
	b.Events = b.Events[begin:]
	select {
	case w.batches <- b:
		return true
	default:
		return false
	}
}
