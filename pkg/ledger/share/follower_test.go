package share_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// follower keeps what replica.Follow delivers.
type follower struct {
	stop func()
	mu   struct {
		sync.Mutex
		revisions map[string]int64
	}
}

func follow(ctx context.Context, s ledger.Store) *follower {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{stop: stop}
	out := make(chan replica.Batch)
	go func() {
		defer close(out)
		_ = replica.Follow(ctx, s, out)
	}()
	go func() {
		for b := range out {
			f.take(b)
		}
	}()
	return f
}

func (f *follower) take(b replica.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.Reset {
		f.mu.revisions = map[string]int64{}
		for _, kv := range b.KVs {
			f.mu.revisions[kv.Key] = kv.ModRevision
		}
	}
	for _, e := range b.Events.Events {
		if f.mu.revisions[e.Key] = e.ModRevision; e.Deleted {
			delete(f.mu.revisions, e.Key)
		}
	}
}

// check compares what each follower has with what the store has.
func check(t *testing.T, s ledger.Store, followers []*follower) {
	t.Helper()
	kvs, _, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for _, kv := range kvs {
		want[kv.Key] = kv.ModRevision
	}
	for _, f := range followers {
		f.mu.Lock()
		if !maps.Equal(f.mu.revisions, want) {
			t.Errorf("a follower has %v, the store %v", f.mu.revisions, want)
		}
		f.mu.Unlock()
	}
}
