package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// meddler is a connection on which another member acts right before and after each transaction that has compares.
type meddler struct {
	clientv3.KV
	// before and after get the number of such transactions so far, this one included.
	before, after func(n int) error
	// sent counts them, reads those without compares, and orElse those that carry reads for the case that they fail.
	sent, reads, orElse int
}

func (m *meddler) Txn(ctx context.Context) clientv3.Txn { return &meddled{Txn: m.KV.Txn(ctx), by: m} }

// meddled is one transaction of a meddler.
type meddled struct {
	clientv3.Txn
	by       *meddler
	compares int
}

func (t *meddled) If(c ...clientv3.Cmp) clientv3.Txn {
	t.Txn, t.compares = t.Txn.If(c...), len(c)
	return t
}

func (t *meddled) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *meddled) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	t.by.orElse++
	return t
}

func (t *meddled) Commit() (*clientv3.TxnResponse, error) {
	if t.compares == 0 {
		t.by.reads++
		return t.Txn.Commit()
	}
	t.by.sent++
	if err := t.by.before(t.by.sent); err != nil {
		return nil, err
	}
	resp, err := t.Txn.Commit()
	return resp, errors.Join(err, t.by.after(t.by.sent))
}

// A transaction that fails is answered with values for which it would fail. If what made it fail is gone when it is
// read, the transaction is sent again; if that goes on, the outcome is unknown, and the caller sends it again.
func TestWhatATransactionComparedIsReadAfterItFailed(t *testing.T) {
	const key = "incarnation/a"
	s := start(t, true)
	txn := ledger.Txn{
		Compares: []ledger.Compare{{Key: key, Target: ledger.ModRevision}},
		Puts:     []ledger.Put{{Key: key, Value: []byte("mine")}},
	}
	for i, c := range []struct {
		name string
		// written and deleted is how often another member writes the key before the transaction is sent, and deletes it
		// after that.
		written, deleted  int
		succeeds, unknown bool
		sent, reads       int
	}{
		{name: "nothing in its way", succeeds: true, sent: 1},
		{name: "lost", written: 1, sent: 1, reads: 1},
		{name: "lost, and what it lost to is gone", written: 1, deleted: 1, succeeds: true, sent: 2, reads: 1},
		{name: "lost to that, and then to another", written: 2, deleted: 1, sent: 2, reads: 2},
		{name: "lost to what is always gone", written: 9, deleted: 9, unknown: true, sent: 3, reads: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			prefix := fmt.Sprintf("/meddled-%d/", i)
			m := &meddler{KV: s.kv}
			m.before = func(n int) (err error) {
				if n <= c.written {
					_, err = s.client.Put(t.Context(), prefix+key, "theirs")
				}
				return err
			}
			m.after = func(n int) (err error) {
				if n <= c.deleted {
					_, err = s.client.Delete(t.Context(), prefix+key)
				}
				return err
			}
			store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{s.endpoint}, Prefix: prefix, KV: m})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}()
			r, err := store.Commit(t.Context(), txn)
			var refused *ledger.TxnError
			if (err != nil) != c.unknown || errors.As(err, &refused) || r.Succeeded != c.succeeds {
				t.Errorf("succeeded %v, error %v", r.Succeeded, err)
			}
			lost := !c.succeeds && !c.unknown
			if lost && (len(r.Current) != 1 || string(r.Current[0].Value) != "theirs" || r.Revision < r.Current[0].ModRevision) {
				t.Errorf("lost to %+v at revision %d", r.Current, r.Revision)
			}
			if m.sent != c.sent || m.reads != c.reads || m.orElse != 0 {
				t.Errorf("sent %d times, read %d times, %d with reads; want %d, %d and none", m.sent, m.reads, m.orElse,
					c.sent, c.reads)
			}
		})
	}
}
