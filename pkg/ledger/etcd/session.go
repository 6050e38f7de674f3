package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// session implements ledger.Session with a lease that the client keeps alive.
type session struct {
	*concurrency.Session
}

// OpenSession implements ledger.Store. ctx bounds only the opening; the session lives until Close, until its lease
// is lost, or until the store is closed. Done also closes when no keep-alive was answered for a whole ttl: the
// server may keep the lease a little longer, which is the safe direction.
func (s *Store) OpenSession(ctx context.Context, ttl time.Duration) (ledger.Session, error) {
	if err := ledger.CheckTTL(ttl); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), requestTimeout)
	defer cancel()
	seconds := int64(ttl / time.Second)
	grant, err := s.client.Grant(ctx, seconds)
	if err != nil {
		return nil, fmt.Errorf("etcd: open session: %w", err)
	}
	inner, err := concurrency.NewSession(s.client, concurrency.WithTTL(int(seconds)), concurrency.WithLease(grant.ID))
	if err == nil && inner == nil {
		err = errors.New("client closed")
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: open session: keep lease %x alive: %w", grant.ID, err)
	}
	return &session{Session: inner}, nil
}

func (n *session) Lease() int64 { return int64(n.Session.Lease()) }

// Close stops keeping the lease alive and revokes it. If revoking fails, the lease still expires by itself.
func (n *session) Close(ctx context.Context) error {
	n.Orphan()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := n.Client().Revoke(ctx, n.Session.Lease())
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcd: close session %x: %w", n.Lease(), err)
	}
	return nil
}

// errLost reports that the session has ended, and so have its candidacies.
var errLost = errors.New("session lost")

// Campaign implements ledger.Elections. The term is the create revision of the candidate's
// key.
func (s *Store) Campaign(ctx context.Context, n ledger.Session, name, candidate string) (int64, error) {
	own, ok := n.(*session)
	if !ok {
		return 0, fmt.Errorf("etcd: campaign for %s: the session is a %T, want one of this store", name, n)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(own.Ctx(), func() { cancel(errLost) })
	defer stop()
	election := concurrency.NewElection(own.Session, roster.PrefixElection+name)
	err := election.Campaign(clientv3.WithRequireLeader(ctx), candidate)
	if err == nil {
		err = s.confirm(ctx, election)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		// The library cleans up if it is interrupted while it waits, and does not report whether that succeeded.
		err = errors.Join(err, s.Resign(context.WithoutCancel(ctx), n, name))
		return 0, fmt.Errorf("etcd: campaign for %s: %w", name, err)
	}
	return election.Rev(), nil
}

// confirm reads the candidate's key again. The library waits for older keys to be deleted, and would report victory
// even if its own key was deleted in the meantime, with its lease.
func (s *Store) confirm(ctx context.Context, e *concurrency.Election) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, e.Key())
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].GetCreateRevision() != e.Rev() {
		return errLost
	}
	return nil
}

// Resign implements ledger.Elections. Without a candidacy it does nothing.
func (s *Store) Resign(ctx context.Context, n ledger.Session, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key := fmt.Sprintf("%s%s/%x", roster.PrefixElection, name, n.Lease())
	if _, err := s.client.Delete(ctx, key); err != nil {
		return fmt.Errorf("etcd: resign from %s: %w", name, err)
	}
	return nil
}
