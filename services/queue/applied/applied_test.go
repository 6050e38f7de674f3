package applied

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Await returns the first newest state that satisfies the condition, and ends with its context.
func TestAwait(t *testing.T) {
	f := New()
	if at := f.Position().Sequence; at != 0 {
		t.Fatalf("begins at %d, want 0", at)
	}
	found := make(chan *state.Snapshot, 1)
	go func() {
		s, err := f.Await(t.Context(), func(s *state.Snapshot) bool { return s.Position().Sequence >= 2 })
		if err != nil {
			t.Error(err)
		}
		found <- s
	}()
	store := state.New()
	for sequence := uint64(1); sequence <= 2; sequence++ {
		fact := events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: sequence}
		if _, err := store.Apply([]events.SequencedFact{{Sequence: sequence, Fact: fact}}); err != nil {
			t.Fatal(err)
		}
		f.Publish(store.Snapshot())
	}
	if at := (<-found).Position().Sequence; at != 2 {
		t.Errorf("found the state at %d, want 2", at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Await(ctx, func(*state.Snapshot) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
