package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// session is a lease that lives until Close or Expire.
type session struct {
	store *Store
	lease int64
	done  chan struct{}
}

// OpenSession implements ledger.Store. It validates ttl, but no clock runs.
func (s *Store) OpenSession(ctx context.Context, ttl time.Duration) (ledger.Session, error) {
	if err := ledger.CheckTTL(ttl); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mem: open session: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lastLease++
	session := &session{store: s, lease: s.mu.lastLease, done: make(chan struct{})}
	s.mu.leases[session.lease] = session
	return session, nil
}

func (n *session) Lease() int64 { return n.lease }

func (n *session) Done() <-chan struct{} { return n.done }

func (n *session) Close(context.Context) error {
	n.store.Expire(n.lease)
	return nil
}

// revoke ends a lease; the caller holds the lock.
func (s *Store) revoke(lease int64) bool {
	session, ok := s.mu.leases[lease]
	if !ok {
		return false
	}
	delete(s.mu.leases, lease)
	close(session.done)
	var keys []string
	for key, kv := range s.mu.keys {
		if kv.Lease == lease {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	s.write(nil, keys)
	s.wake()
	return true
}

var errLost = errors.New("mem: the session is lost")

// Campaign implements ledger.Elections: candidates queue by the create revision of their keys, and the oldest
// leads.
func (s *Store) Campaign(ctx context.Context, n ledger.Session, name, candidate string) (int64, error) {
	key := electionKey(n, name)
	if err := s.enter(key, candidate, n.Lease()); err != nil {
		return 0, fmt.Errorf("mem: campaign for %s: %w", name, err)
	}
	for {
		s.mu.Lock()
		queue := s.list(roster.PrefixElection + name + "/")
		self, alive := s.mu.keys[key]
		changed := s.mu.changed
		s.mu.Unlock()
		if !alive {
			return 0, fmt.Errorf("mem: campaign for %s: %w", name, errLost)
		}
		older := func(kv ledger.KV) bool { return kv.CreateRevision < self.CreateRevision }
		if !slices.ContainsFunc(queue, older) {
			return self.CreateRevision, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.withdraw(key)
			return 0, fmt.Errorf("mem: campaign for %s: %w", name, ctx.Err())
		}
	}
}

// enter puts the candidate's key, and keeps its create revision if it exists already.
func (s *Store) enter(key, candidate string, lease int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.mu.leases[lease]; !ok {
		return errLost
	}
	if kv, ok := s.mu.keys[key]; ok && string(kv.Value) == candidate {
		return nil
	}
	s.write([]ledger.Put{{Key: key, Value: []byte(candidate), Lease: lease}}, nil)
	return nil
}

// Resign implements ledger.Elections. Without a candidacy it does nothing.
func (s *Store) Resign(_ context.Context, n ledger.Session, name string) error {
	s.withdraw(electionKey(n, name))
	return nil
}

// withdraw deletes a candidate's key, which wakes the candidate behind it.
func (s *Store) withdraw(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(nil, []string{key})
}

// electionKey returns the key that the etcd client would use, so that both stores have the same keys.
func electionKey(n ledger.Session, name string) string {
	return fmt.Sprintf("%s%s/%x", roster.PrefixElection, name, n.Lease())
}
