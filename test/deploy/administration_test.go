//go:build e2e

package deploy_test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// foreignAdministration: operations of etcd's administrator are refused to every service. A service cannot revoke a
// lease of another service without the right to it; the lease and its keys persist.
func (s *system) foreignAdministration(t *testing.T) {
	endpoint := s.stores.etcdURLs()[0]
	owner := s.etcdClient(t, "queue")
	lease, err := owner.Grant(t.Context(), 60)
	s.must(err)
	_, err = owner.Put(t.Context(), "/berth/election/queue/leased", "x", clientv3.WithLease(lease.ID))
	s.must(err)
	acts := administration(endpoint, lease.ID)
	for _, as := range []string{"scheduler", "binder", "descheduler", "observer"} {
		client := s.etcdClient(t, as)
		for what, do := range acts {
			ctx, cancel := context.WithTimeout(t.Context(), refusedWithin)
			if err := do(ctx, client); err == nil {
				t.Errorf("the %s may %s", as, what)
			} else if ctx.Err() != nil {
				t.Errorf("the %s, %s: no answer", as, what)
			}
			cancel()
		}
	}
	kept, err := owner.Get(t.Context(), "/berth/election/queue/leased")
	s.must(err)
	if len(kept.Kvs) != 1 {
		t.Error("the lease of the queue is gone")
	}
	_, err = owner.Revoke(t.Context(), lease.ID)
	s.must(err)
}

// act is one call that is refused.
type act func(context.Context, *clientv3.Client) error

// call is an act whose answer is of no interest.
func call[T any](do func(context.Context, *clientv3.Client) (T, error)) act {
	return func(ctx context.Context, c *clientv3.Client) error {
		_, err := do(ctx, c)
		return err
	}
}

// administration are operations of etcd's administrator, which the services do not need for the ledger.
func administration(endpoint string, lease clientv3.LeaseID) map[string]act {
	type (
		ctx    = context.Context
		client = *clientv3.Client
	)
	return map[string]act{
		"add a user": call(func(x ctx, c client) (*clientv3.AuthUserAddResponse, error) { return c.UserAdd(x, "evil", "x") }),
		"grant itself a role": call(func(x ctx, c client) (*clientv3.AuthUserGrantRoleResponse, error) {
			return c.UserGrantRole(x, "berth-scheduler", "root")
		}),
		"switch authentication off": call(func(x ctx, c client) (*clientv3.AuthDisableResponse, error) {
			return c.AuthDisable(x)
		}),
		"add a member": call(func(x ctx, c client) (*clientv3.MemberAddResponse, error) {
			return c.MemberAdd(x, []string{"https://127.0.0.1:1"})
		}),
		"remove a member": call(func(x ctx, c client) (*clientv3.MemberRemoveResponse, error) {
			return c.MemberRemove(x, 1)
		}),
		"defragment": call(func(x ctx, c client) (*clientv3.DefragmentResponse, error) {
			return c.Defragment(x, endpoint)
		}),
		"take a snapshot": func(x ctx, c client) error {
			r, err := c.Snapshot(x)
			if err == nil {
				_, err = r.Read(make([]byte, 1))
				_ = r.Close() // nothing of it is used
			}
			return err
		},
		"move the leader": call(func(x ctx, c client) (*clientv3.MoveLeaderResponse, error) { return c.MoveLeader(x, 1) }),
		"revoke a lease of the queue": call(func(x ctx, c client) (*clientv3.LeaseRevokeResponse, error) {
			return c.Revoke(x, lease)
		}),
		"read beside the ledger": call(func(x ctx, c client) (*clientv3.GetResponse, error) { return c.Get(x, "/other") }),
		"write beside the ledger": call(func(x ctx, c client) (*clientv3.PutResponse, error) {
			return c.Put(x, "/other", "x")
		}),
		"watch everything": func(x ctx, c client) error {
			answer := <-c.Watch(x, "", clientv3.WithPrefix())
			return answer.Err()
		},
	}
}

// etcdClient connects as a service, with nothing of Berth between.
func (s *system) etcdClient(t *testing.T, as string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: s.stores.etcdURLs(), TLS: s.identity(as), DialTimeout: refusedWithin, Context: t.Context(),
	})
	s.must(err)
	t.Cleanup(func() { _ = c.Close() }) // only the connection
	return c
}
