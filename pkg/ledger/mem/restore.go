package mem

import (
	"context"
	"fmt"
	"maps"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Backup is the content of a store at a revision.
type Backup struct {
	keys     map[string]ledger.KV
	revision int64
}

// Backup copies the content of the store. (Values are never changed in place.)
func (s *Store) Backup() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Backup{keys: maps.Clone(s.mu.keys), revision: s.mu.revision}
}

// Restore replaces the store by one with the content of the backup, without its leases and the keys attached to
// them; the zero Backup yields an empty store. another gives it another identity, as some ways of restoring etcd
// do. The old Store fails every call from then on with *ledger.StoreReplacedError.
func (s *Store) Restore(b Backup, another bool) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := New()
	next.mu.id = s.mu.id
	if another {
		next.mu.id++
	}
	next.mu.revision = max(b.revision, firstRevision)
	next.mu.first, next.mu.compacted = next.mu.revision+1, next.mu.revision+1
	for key, kv := range b.keys {
		if kv.Lease == 0 {
			next.mu.keys[key] = kv
		}
	}
	s.mu.anew = &ledger.StoreReplacedError{Was: s.mu.id, Now: next.mu.id, Seen: s.mu.revision, Revision: next.mu.revision}
	s.wake()
	return next
}

// ID implements ledger.Store.
func (s *Store) ID(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("mem: id: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.anew != nil {
		return 0, s.mu.anew
	}
	return s.mu.id, nil
}

// checkReached checks that the store has reached a revision.
func (s *Store) checkReached(revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.revision < revision {
		return &ledger.StoreReplacedError{Was: s.mu.id, Now: s.mu.id, Seen: revision, Revision: s.mu.revision}
	}
	return nil
}
