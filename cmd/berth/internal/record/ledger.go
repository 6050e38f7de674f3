package record

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// skipped are the prefixes of keys that no invariant covers: members, and leadership.
var skipped = []string{roster.PrefixMember, roster.PrefixElection}

// ledgerSource follows the ledger. listed is closed when the first list has been recorded.
type ledgerSource struct {
	store  ledger.Store
	out    chan<- recording.Record
	listed chan struct{}
	mu     struct {
		sync.Mutex
		// revision is the newest one that was recorded completely.
		revision int64
		// keys holds the mod revisions of the existing keys.
		keys map[string]int64
	}
}

// newLedgerSource returns a source that has recorded nothing.
func newLedgerSource(store ledger.Store, out chan<- recording.Record) *ledgerSource {
	s := &ledgerSource{store: store, out: out, listed: make(chan struct{})}
	s.mu.keys = map[string]int64{}
	return s
}

// run follows the ledger until ctx ends, or until the ledger cannot be followed.
func (s *ledgerSource) run(ctx context.Context) error {
	batches := make(chan replica.Batch)
	g, ctx := errgroup.WithContext(ctx)
	// Follow lists, watches, and lists again after a gap; its batches are in the order of revisions.
	g.Go(func() error { return replica.Follow(ctx, s.store, batches) })
	g.Go(func() error {
		for first := true; ; {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				s.applyBatch(ctx, b)
				if first {
					close(s.listed)
					first = false
				}
			}
		}
	})
	return g.Wait()
}

// applyBatch makes a record of a batch, without the keys that no invariant covers, and remembers which keys exist. A
// batch of skipped keys alone makes no record, and yet advances the revision.
func (s *ledgerSource) applyBatch(ctx context.Context, b replica.Batch) {
	record := recording.Ledger{Revision: b.Events.Revision, Listed: b.Reset}
	keys := map[string]int64{}
	gone := map[string]bool{}
	// KVs are the content of a list, Events the changes of a watch; a batch has one or the other.
	for _, kv := range b.KVs {
		if !skips(kv.Key) {
			record.Events = append(record.Events, recording.FromLedger(ledger.Event{KV: kv}))
			keys[kv.Key] = kv.ModRevision
		}
	}
	for _, ev := range b.Events.Events {
		if skips(ev.Key) {
			continue
		}
		record.Events = append(record.Events, recording.FromLedger(ev))
		keys[ev.Key], gone[ev.Key] = ev.ModRevision, ev.Deleted
	}
	if b.Reset || len(record.Events) > 0 {
		send(ctx, s.out, recording.Record{Ledger: &record})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Reset {
		s.mu.keys = map[string]int64{}
	}
	maps.Copy(s.mu.keys, keys)
	for key, deleted := range gone {
		if deleted {
			delete(s.mu.keys, key)
		}
	}
	s.mu.revision = b.Events.Revision
}

// revision returns the newest revision that was recorded completely.
func (s *ledgerSource) revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.revision
}

// settle waits until everything that is in the ledger now has been recorded, and returns its revision.
func (s *ledgerSource) settle(ctx context.Context) (int64, error) {
	// The list is read after the recording was stopped, so it contains everything that had happened by then.
	kvs, revision, err := s.store.List(ctx, "")
	if err != nil {
		return s.revision(), err
	}
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for !s.caughtUp(kvs, revision) {
		select {
		case <-ctx.Done():
			return s.revision(), ctx.Err()
		case <-tick.C:
		}
	}
	return revision, nil
}

// caughtUp reports whether the changes up to a list have been recorded: every key in it, and the removal of every key
// that is not. The revision alone is not enough: skipped keys change it without a record, and no event may follow that
// would advance it.
func (s *ledgerSource) caughtUp(kvs []ledger.KV, revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.revision >= revision {
		return true
	}
	kept := 0
	for _, kv := range kvs {
		if skips(kv.Key) {
			continue
		}
		kept++
		if s.mu.keys[kv.Key] < kv.ModRevision {
			return false
		}
	}
	return kept == len(s.mu.keys)
}

// skips reports whether a key is left out of histories.
func skips(key string) bool {
	for _, prefix := range skipped {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
