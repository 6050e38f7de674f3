package mem

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// maxBatchRevisions bounds one EventBatch, as etcd bounds what it sends to a watch that is
// catching up.
const maxBatchRevisions = 1000

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

// collect is what the watch may deliver now; Revision 0 when that is nothing, and then
// changed closes when it is worth looking again.
func (w *watch) collect() (batch ledger.EventBatch, changed <-chan struct{}, err error) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.faults.breaks > w.breaks {
		return ledger.EventBatch{}, nil, s.mu.faults.broken
	}
	if w.next < s.mu.compacted {
		return ledger.EventBatch{}, nil, ledger.ErrCompacted
	}
	last := s.mu.revision
	if held := s.mu.faults.heldAt; held != 0 {
		last = min(last, held)
	}
	for from := max(w.next, s.mu.first); from <= last; from++ {
		if from-w.next >= maxBatchRevisions {
			break
		}
		for _, ev := range s.mu.history[from-s.mu.first] {
			if strings.HasPrefix(ev.Key, w.prefix) {
				ev.Value = slices.Clone(ev.Value)
				batch.Events = append(batch.Events, ev)
			}
		}
		batch.Revision = from
	}
	return batch, s.mu.changed, nil
}
