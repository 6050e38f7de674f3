package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// watch implements ledger.Watch. err is set before batches is closed, and read only afterwards.
type watch struct {
	batches chan ledger.EventBatch
	err     error
}

func (w *watch) Batches() <-chan ledger.EventBatch { return w.batches }

func (w *watch) Err() error { return w.err }

// Watch implements ledger.Store. The client reconnects by itself while a leader can be found; it buffers without
// bound what a slow reader has not received.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	w := &watch{batches: make(chan ledger.EventBatch)}
	go w.run(ctx, s, prefix, from) //nolint:goroutine // ends with ctx, which closes Batches: the contract
	return w
}

// run delivers batches until the watch breaks or ctx ends. It first checks that the store has reached the revision at
// which the watch begins, and then starts the verification, which cancels inner if the store was replaced.
func (w *watch) run(ctx context.Context, s *Store, prefix string, from int64) {
	defer close(w.batches)
	if from < 1 {
		w.err = fmt.Errorf("etcd: watch: from revision %d, want at least 1", from)
		return
	}
	if err := s.checkReached(ctx, from); err != nil {
		if ctx.Err() == nil {
			w.err = err
		}
		return
	}
	// The client's watch must end with this function, however the function ends.
	inner, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	var vouching sync.WaitGroup
	defer vouching.Wait()
	defer cancel(nil)
	vouching.Go(func() { s.verifyLoop(inner, cancel) })
	responses := s.client.Watch(inner, prefix, clientv3.WithPrefix(), clientv3.WithRev(from),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	for resp := range responses {
		if err := resp.Err(); err != nil {
			if ctx.Err() == nil {
				w.err = fmt.Errorf("etcd: watch: %w", replacedOr(inner, mapCompacted(err)))
			}
			return
		}
		batch := toBatch(resp)
		if batch.Revision < from {
			continue
		}
		s.continuity.observe(batch)
		select {
		case w.batches <- batch:
		case <-inner.Done():
			if ctx.Err() == nil {
				w.err = fmt.Errorf("etcd: watch: %w", replacedOr(inner, inner.Err()))
			}
			return
		}
	}
	if ctx.Err() == nil {
		w.err = fmt.Errorf("etcd: watch: %w", replacedOr(inner, errors.New("client closed")))
	}
}

// replacedOr returns the error with which a watch has ended: *ledger.StoreReplacedError if the store was replaced or
// went back, else err.
func replacedOr(ctx context.Context, err error) error {
	var anew *ledger.StoreReplacedError
	if errors.As(context.Cause(ctx), &anew) {
		return anew
	}
	return err
}

// checkReached checks that the store has reached the revision at which a watch begins: a watch of future revisions
// delivers nothing until the store reaches them.
func (s *Store) checkReached(ctx context.Context, from int64) error {
	seen, err := s.continuity.requiredRevision()
	if err != nil {
		return err
	}
	resp, err := s.page(ctx, identity.KeyGeneration, []clientv3.OpOption{clientv3.WithCountOnly()})
	if err != nil {
		return fmt.Errorf("etcd: watch: %w", err)
	}
	if err := s.checkAnswer(resp.Header, max(seen, from-1)); err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return fmt.Errorf("etcd: watch: %w", err)
	}
	return nil
}

// toBatch converts one response; Revision is 0 when it contains nothing. A response with events is complete only up
// to its last event: the header's revision may be ahead of what a watch that is catching up has been sent. (The
// client reassembles fragments.)
func toBatch(resp clientv3.WatchResponse) ledger.EventBatch {
	if resp.IsProgressNotify() {
		return ledger.EventBatch{Revision: resp.Header.GetRevision()}
	}
	var b ledger.EventBatch
	for _, ev := range resp.Events {
		out := ledger.Event{KV: toKV(ev.Kv), Deleted: ev.Type == clientv3.EventTypeDelete}
		b.Revision = out.ModRevision
		b.Events = append(b.Events, out)
	}
	return b
}
