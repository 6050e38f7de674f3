package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// patience bounds every wait of the suite; a correct store needs a fraction of it.
const patience = 30 * time.Second

// sessionTTL is the ttl of the suite's sessions.
const sessionTTL = 2 * time.Second

// Harness is an empty store, and the two operations on it that only its adapter can provide.
type Harness struct {
	Store     ledger.Store
	Elections ledger.Elections
	// Compact discards the history before revision.
	Compact func(t *testing.T, revision int64)
	// Expire ends a lease as the passing of time would.
	Expire func(t *testing.T, lease int64)
}

// Open returns a Harness whose keys are empty; it cleans up by itself.
type Open func(t *testing.T) Harness

type contract struct {
	name string
	run  func(*testing.T, Harness)
}

func runAll(t *testing.T, open Open, all []contract) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func commit(t *testing.T, s ledger.Store, txn ledger.Txn) ledger.TxnResult {
	t.Helper()
	r, err := s.Commit(within(t), txn)
	if err != nil {
		t.Fatalf("commit %+v: %v", txn, err)
	}
	return r
}

// mustCommit requires success and returns the revision.
func mustCommit(t *testing.T, s ledger.Store, txn ledger.Txn) int64 {
	t.Helper()
	r := commit(t, s, txn)
	if !r.Succeeded {
		t.Fatalf("commit %+v failed, current: %+v", txn, r.Current)
	}
	return r.Revision
}

func put(key, value string) ledger.Txn {
	return ledger.Txn{Puts: []ledger.Put{{Key: key, Value: []byte(value)}}}
}

func list(t *testing.T, s ledger.Store, prefix string) ([]ledger.KV, int64) {
	t.Helper()
	kvs, revision, err := s.List(within(t), prefix)
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	return kvs, revision
}

// get returns one key as stored.
func get(t *testing.T, s ledger.Store, key string) (ledger.KV, bool) {
	t.Helper()
	kvs, _ := list(t, s, key)
	for _, kv := range kvs {
		if kv.Key == key {
			return kv, true
		}
	}
	return ledger.KV{}, false
}

func openSession(t *testing.T, s ledger.Store) ledger.Session {
	t.Helper()
	session, err := s.OpenSession(within(t), sessionTTL)
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := session.Close(ctx); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return session
}

func waitDone(t *testing.T, session ledger.Session) {
	t.Helper()
	select {
	case <-session.Done():
	case <-time.After(patience):
		t.Fatalf("session %x is not done after %s", session.Lease(), patience)
	}
}

// watchFor collects events until enough reports true.
func watchFor(t *testing.T, w ledger.Watch, enough func([]ledger.EventBatch) bool) []ledger.EventBatch {
	t.Helper()
	var got []ledger.EventBatch
	timeout := time.After(patience)
	for !enough(got) {
		select {
		case b, ok := <-w.Batches():
			if !ok {
				t.Fatalf("watch ended after %d batches: %v", len(got), w.Err())
			}
			got = append(got, b)
		case <-timeout:
			t.Fatalf("watch: not enough after %s: %+v", patience, got)
		}
	}
	return got
}

// upTo returns a predicate that is true once the watch has delivered revision.
func upTo(revision int64) func([]ledger.EventBatch) bool {
	return func(got []ledger.EventBatch) bool {
		return len(got) > 0 && got[len(got)-1].Revision >= revision
	}
}

// gone waits until key is deleted.
func gone(t *testing.T, s ledger.Store, key string, from int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := s.Watch(ctx, key, from)
	watchFor(t, w, func(got []ledger.EventBatch) bool {
		for _, b := range got {
			for _, ev := range b.Events {
				if ev.Deleted && ev.Key == key {
					return true
				}
			}
		}
		return false
	})
}

func wantTxnError(t *testing.T, what string, err error) {
	t.Helper()
	var refused *ledger.TxnError
	if !errors.As(err, &refused) {
		t.Errorf("%s: got error %v, want *ledger.TxnError", what, err)
	}
}

func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}
