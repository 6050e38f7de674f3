package mem

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// maxBatchRevisions bounds one EventBatch, as etcd bounds what it sends to a watch that is catching up.
const maxBatchRevisions = 1000

// watch implements ledger.Watch. Its goroutine alone changes next and err; err is read after batches is closed.
type watch struct {
	store   *Store
	prefix  string
	next    int64
	breaks  int
	batches chan ledger.EventBatch
	err     error
}

// Watch implements ledger.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	w := &watch{store: s, prefix: prefix, next: from, batches: make(chan ledger.EventBatch)}
	s.mu.Lock()
	w.breaks = s.mu.faults.breaks
	s.mu.Unlock()
	go w.run(ctx) //nolint:goroutine // ends with ctx, which closes Batches: the contract
	return w
}

func (w *watch) Batches() <-chan ledger.EventBatch { return w.batches }

func (w *watch) Err() error { return w.err }

func (w *watch) run(ctx context.Context) {
	defer close(w.batches)
	if w.next < 1 {
		w.err = fmt.Errorf("mem: watch: from revision %d, want at least 1", w.next)
		return
	}
	if w.err = w.store.checkReached(w.next - 1); w.err != nil {
		return
	}
	for {
		batch, changed, err := w.collect()
		if err != nil {
			w.err = err
			return
		}
		if batch.Revision == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case w.batches <- batch:
			w.next = batch.Revision + 1
		case <-ctx.Done():
			return
		}
	}
}

// collect returns what the watch may deliver now. Revision is 0 when that is nothing; changed then closes when it
// is worth checking again.
func (w *watch) collect() (batch ledger.EventBatch, changed <-chan struct{}, err error) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.anew != nil {
		return ledger.EventBatch{}, nil, s.mu.anew
	}
	if s.mu.faults.breaks > w.breaks {
		return ledger.EventBatch{}, nil, s.mu.faults.broken
	}
	last := s.mu.revision
	if held := s.mu.faults.heldAt; held != 0 {
		last = min(last, held)
	}
	batch, err = s.between(w.prefix, w.next, min(last, w.next+maxBatchRevisions-1))
	return batch, s.mu.changed, err
}

// between returns what happened under prefix at revisions from next to last; the caller holds the lock.
func (s *Store) between(prefix string, next, last int64) (batch ledger.EventBatch, err error) {
	if next < s.mu.compacted {
		return ledger.EventBatch{}, ledger.ErrCompacted
	}
	for from := max(next, s.mu.first); from <= last; from++ {
		for _, ev := range s.mu.history[from-s.mu.first] {
			if strings.HasPrefix(ev.Key, prefix) {
				ev.Value = slices.Clone(ev.Value)
				batch.Events = append(batch.Events, ev)
			}
		}
		batch.Revision = from
	}
	return batch, nil
}

// Changes returns what a watch of everything from revision next on would deliver up to revision last, for a driver
// that steps its readers by hand. Revision is 0 when that is nothing; the error is ledger.ErrCompacted when the
// history does not reach back to next any more. The fault switches for watches do not affect it.
func (s *Store) Changes(next, last int64) (ledger.EventBatch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.between("", next, min(last, s.mu.revision))
}

// Revision returns the revision of the last change.
func (s *Store) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.revision
}
