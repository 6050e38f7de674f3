//go:build e2e

package deploy_test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// foreignAdministration: what only etcd's administrator does is refused to every service. Without a service's right to
// it, a lease of another service stands, and so do the keys on it.
func (s *system) foreignAdministration(t *testing.T) {
	endpoint := s.stores.etcdURLs()[0]
	owner := s.etcdClient(t, "queue")
	lease, err := owner.Grant(t.Context(), 60)
	s.no(err)
	_, err = owner.Put(t.Context(), "/berth/member/queue/leased", "x", clientv3.WithLease(lease.ID))
	s.no(err)
	acts := map[string]func(context.Context, *clientv3.Client) error{
		"add a user": func(ctx context.Context, c *clientv3.Client) error { _, err := c.UserAdd(ctx, "evil", "x"); return err },
		"grant itself a role": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.UserGrantRole(ctx, "berth-scheduler", "root")
			return err
		},
		"switch authentication off": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.AuthDisable(ctx)
			return err
		},
		"add a member": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.MemberAdd(ctx, []string{"https://127.0.0.1:1"})
			return err
		},
		"remove a member": func(ctx context.Context, c *clientv3.Client) error { _, err := c.MemberRemove(ctx, 1); return err },
		"defragment":      func(ctx context.Context, c *clientv3.Client) error { _, err := c.Defragment(ctx, endpoint); return err },
		"take a snapshot": func(ctx context.Context, c *clientv3.Client) error {
			r, err := c.Snapshot(ctx)
			if err == nil {
				_, err = r.Read(make([]byte, 1))
				_ = r.Close() // nothing of it is used
			}
			return err
		},
		"move the leader": func(ctx context.Context, c *clientv3.Client) error { _, err := c.MoveLeader(ctx, 1); return err },
		"revoke a lease of the queue": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Revoke(ctx, lease.ID)
			return err
		},
		"read beside the ledger":  func(ctx context.Context, c *clientv3.Client) error { _, err := c.Get(ctx, "/other"); return err },
		"write beside the ledger": func(ctx context.Context, c *clientv3.Client) error { _, err := c.Put(ctx, "/other", "x"); return err },
		"watch everything": func(ctx context.Context, c *clientv3.Client) error {
			answer := <-c.Watch(ctx, "", clientv3.WithPrefix())
			return answer.Err()
		},
	}
	for _, as := range []string{"scheduler", "binder", "descheduler"} {
		client := s.etcdClient(t, as)
		for what, act := range acts {
			ctx, cancel := context.WithTimeout(t.Context(), refusedWithin)
			if err := act(ctx, client); err == nil {
				t.Errorf("the %s may %s", as, what)
			} else if ctx.Err() != nil {
				t.Errorf("the %s, %s: no answer", as, what)
			}
			cancel()
		}
	}
	kept, err := owner.Get(t.Context(), "/berth/member/queue/leased")
	s.no(err)
	if len(kept.Kvs) != 1 {
		t.Error("the lease of the queue is gone")
	}
	_, err = owner.Revoke(t.Context(), lease.ID)
	s.no(err)
}

// etcdClient connects as a service, with nothing of Berth between.
func (s *system) etcdClient(t *testing.T, as string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: s.stores.etcdURLs(), TLS: s.identity(as), DialTimeout: refusedWithin, Context: t.Context(),
	})
	s.no(err)
	t.Cleanup(func() { _ = c.Close() }) // only the connection
	return c
}
