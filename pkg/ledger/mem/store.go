package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// ErrInjected is returned by a call that a fault switch made fail.
var ErrInjected = errors.New("mem: injected fault, the outcome is unknown")

// Store implements ledger.Store and ledger.Elections. Safe for concurrent use.
type Store struct {
	mu struct {
		sync.Mutex
		// revision is that of the last change; an empty store is at 1, like etcd.
		revision int64
		keys     map[string]ledger.KV
		// history[i] are the events of revision first+i; every revision has some.
		history [][]ledger.Event
		first   int64
		// compacted is the revision at or after which watches must start.
		compacted int64
		// leases are those that have not ended. lastLease is the newest: ids are never used again.
		leases    map[int64]*session
		lastLease int64
		// changed is closed and replaced whenever something changes that a waiter may be waiting for.
		changed chan struct{}
		faults  faults
		id      uint64
		// anew is set once the store behind this Store has been replaced.
		anew *ledger.StoreReplacedError
	}
}

// firstRevision is that of an empty store, as in etcd; firstID is the identity of a store that was not restored
// under another one.
const (
	firstRevision = 1
	firstID       = 1
)

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.mu.id = firstID
	s.mu.revision = firstRevision
	s.mu.first = firstRevision + 1
	s.mu.keys = map[string]ledger.KV{}
	s.mu.leases = map[int64]*session{}
	s.mu.changed = make(chan struct{})
	return s
}

var (
	_ ledger.Store     = (*Store)(nil)
	_ ledger.Elections = (*Store)(nil)
)

// Commit implements ledger.Store. The faults are taken in the order in which they can occur: a transaction that is too
// large is refused, one that fails is not carried out, and only one that was carried out can lose its answer.
func (s *Store) Commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	if err := t.Validate(); err != nil {
		return ledger.TxnResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return ledger.TxnResult{}, fmt.Errorf("mem: commit: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.mu.faults.maxTxnBytes; most > 0 && t.Bytes() > most {
		return ledger.TxnResult{}, &ledger.TxnError{
			TooLarge: true, Reason: fmt.Sprintf("mem: %d bytes, want at most %d", t.Bytes(), most),
		}
	}
	if take(&s.mu.faults.failTxns) {
		return ledger.TxnResult{}, ErrInjected
	}
	r, err := s.commit(t)
	if err == nil && take(&s.mu.faults.loseAnswers) {
		return ledger.TxnResult{}, ErrInjected
	}
	return r, err
}

// commit runs a valid transaction; the caller holds the lock.
func (s *Store) commit(t ledger.Txn) (ledger.TxnResult, error) {
	if s.mu.anew != nil {
		return ledger.TxnResult{}, s.mu.anew
	}
	for _, c := range t.Compares {
		kv := s.mu.keys[c.Key]
		have := kv.ModRevision
		if c.Target == ledger.CreateRevision {
			have = kv.CreateRevision
		}
		if have != c.Revision {
			return ledger.TxnResult{Revision: s.mu.revision, Current: s.current(t)}, nil
		}
	}
	for _, p := range t.Puts {
		if _, ok := s.mu.leases[p.Lease]; p.Lease != 0 && !ok {
			return ledger.TxnResult{}, &ledger.TxnError{Reason: fmt.Sprintf("put of %s: lease %x not found", p.Key, p.Lease)}
		}
	}
	s.write(t.Puts, t.Deletes)
	return ledger.TxnResult{Succeeded: true, Revision: s.mu.revision}, nil
}

// current returns the compared keys that exist; the caller holds the lock.
func (s *Store) current(t ledger.Txn) []ledger.KV {
	var out []ledger.KV
	for _, key := range t.Compared() {
		if kv, ok := s.mu.keys[key]; ok {
			out = append(out, copyKV(kv))
		}
	}
	return out
}

// write applies puts and deletes at one new revision, or at none if nothing changes, as etcd does for deletions of keys
// that do not exist. The caller holds the lock.
func (s *Store) write(puts []ledger.Put, deletes []string) {
	revision := s.mu.revision + 1
	var events []ledger.Event
	for _, p := range puts {
		kv := ledger.KV{
			Key: p.Key, Value: slices.Clone(p.Value), Lease: p.Lease,
			CreateRevision: revision, ModRevision: revision,
		}
		if old, ok := s.mu.keys[p.Key]; ok {
			kv.CreateRevision = old.CreateRevision
		}
		s.mu.keys[p.Key] = kv
		events = append(events, ledger.Event{KV: kv})
	}
	for _, key := range deletes {
		if _, ok := s.mu.keys[key]; !ok {
			continue
		}
		delete(s.mu.keys, key)
		events = append(events, ledger.Event{KV: ledger.KV{Key: key, ModRevision: revision}, Deleted: true})
	}
	if len(events) == 0 {
		return
	}
	s.mu.revision = revision
	s.mu.history = append(s.mu.history, events)
	s.wake()
}

// wake makes every waiter check again; the caller holds the lock.
func (s *Store) wake() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// List implements ledger.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]ledger.KV, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("mem: list: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if take(&s.mu.faults.failLists) {
		return nil, 0, ErrInjected
	}
	if s.mu.anew != nil {
		return nil, 0, s.mu.anew
	}
	return s.list(prefix), s.mu.revision, nil
}

// list returns the keys under a prefix, in order; the caller holds the lock.
func (s *Store) list(prefix string) []ledger.KV {
	var out []ledger.KV
	for key, kv := range s.mu.keys {
		if strings.HasPrefix(key, prefix) {
			out = append(out, copyKV(kv))
		}
	}
	slices.SortFunc(out, func(a, b ledger.KV) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// copyKV returns a value that the caller may change.
func copyKV(kv ledger.KV) ledger.KV {
	kv.Value = slices.Clone(kv.Value)
	return kv
}
