package replica_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, store ledger.Store, key string) int64 {
	t.Helper()
	r, err := store.Commit(t.Context(), ledger.Txn{Puts: []ledger.Put{{Key: key, Value: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

func TestFollowComesThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan replica.Batch)
		done := make(chan error, 1)
		store.FailLists(3)
		go func() { done <- replica.Follow(ctx, store, out) }()
		if b := <-out; !b.Reset || b.Events.Revision != 1 {
			t.Fatalf("first batch %+v, want a listing", b)
		}
		r := write(t, store, "a")
		if b := <-out; b.Reset || b.Events.Revision != r {
			t.Errorf("batch %+v, want the change at %d", b, r)
		}
		store.BreakWatches(mem.ErrInjected)
		r = write(t, store, "b")
		if b := <-out; b.Reset || b.Events.Revision != r || len(b.Events.Events) != 1 {
			t.Errorf("after a broken watch: %+v, want it resumed at %d", b, r)
		}
		store.BreakWatches(mem.ErrInjected)
		write(t, store, "c")
		r = write(t, store, "d")
		if err := store.Compact(r); err != nil {
			t.Fatal(err)
		}
		if b := <-out; !b.Reset || b.Events.Revision != r || len(b.KVs) != 4 {
			t.Errorf("after compaction: %+v, want a new listing at %d", b, r)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("follow: %v", err)
		}
	})
}

// However long the ledger is unreachable, Follow continues when it is back.
func TestFollowWaitsForALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		const failures = 1000
		store.FailLists(failures)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan replica.Batch)
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- replica.Follow(ctx, store, out) }()
		if b := <-out; !b.Reset || time.Since(start) < 30*time.Minute {
			t.Errorf("after %s: %+v, want a listing after more than half an hour", time.Since(start), b)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("follow: %v", err)
		}
	})
}
