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
		// source serves the watches that begin now. It is nil while no watch is served, and for a moment after it broke.
		source *source
		// late are sources of watches that begin before what source keeps. Each ends when it has caught up with source.
		late map[*source]struct{}
		// broken is the source before, if it broke and the next one can go on from it: all watches that it served begin
		// again, each where it was.
		broken *source
	}
}

// New returns a store that passes calls on to backend.
func New(backend Backend) *Store {
	s := &Store{Backend: backend}
	s.mu.late = map[*source]struct{}{}
	return s
}

// Watch implements ledger.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	if prefix != "" || ctx.Err() != nil {
		return s.Backend.Watch(ctx, prefix, from)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watch{from: from, batches: make(chan ledger.EventBatch, watchBuffer)}
	s.serving(ctx, from).serve(w)
	w.forget = context.AfterFunc(ctx, func() { s.removeWatch(w) })
	return w
}

// serving returns the source for a watch that begins at a revision, and starts one if none keeps that revision.
func (s *Store) serving(ctx context.Context, from int64) *source {
	if s.mu.source != nil && s.mu.source.first <= from {
		return s.mu.source
	}
	for src := range s.mu.late {
		if src.first <= from {
			return src
		}
	}
	src := s.start(context.WithoutCancel(ctx), from)
	if s.mu.source == nil {
		s.mu.source = src
	} else {
		s.mu.late[src] = struct{}{}
	}
	return src
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
		src.first, src.retained = last.first, slices.Clone(last.retained) // another source may begin with it too
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
		s.join(src)
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
	delete(s.mu.late, src)
	if s.mu.source != src {
		return
	}
	s.mu.source, s.mu.broken = nil, src
	var anew *ledger.StoreReplacedError
	if err := from.Err(); errors.Is(err, ledger.ErrCompacted) || errors.As(err, &anew) {
		s.mu.broken = nil
	}
}

// join hands the watches of a late source over to the one that serves the watches that begin now, if it has caught up
// with what that one keeps. So a process that has been running for a while has one watch of the ledger, whatever its
// watches began with. If there is no such source any more, the late one becomes it.
func (s *Store) join(src *source) {
	if _, late := s.mu.late[src]; !late || len(src.watches) == 0 {
		return
	}
	if s.mu.source == nil {
		delete(s.mu.late, src)
		s.mu.source = src
		return
	}
	if src.next() < s.mu.source.first {
		return
	}
	for w := range src.watches {
		delete(src.watches, w)
		w.from = max(w.from, src.next())
		if !s.mu.source.serve(w) {
			s.mu.source.end(w, ErrBehind)
		}
	}
}

// serve adds a watch to the source, and hands it what the source keeps from the revision on at which the watch begins.
// It returns false if there is no room for that.
func (src *source) serve(w *watch) bool {
	src.watches[w], w.source = struct{}{}, src
	for _, b := range src.retained {
		if !w.add(b) {
			return false
		}
	}
	return true
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

// removeWatch ends a watch whose context has ended, and its source with the last one.
func (s *Store) removeWatch(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := w.source
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
	delete(s.mu.late, src)
	if s.mu.source == src {
		s.mu.source, s.mu.broken = nil, nil
	}
}

// watch is one that is served from the source. The store's lock guards it until batches is closed.
type watch struct {
	from    int64
	source  *source
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
