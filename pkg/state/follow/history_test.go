package follow_test

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// snapshotAt is a state after some facts of an epoch.
func snapshotAt(t *testing.T, epoch uint64) []byte {
	t.Helper()
	s := state.New()
	for n := uint64(1); n <= 3; n++ {
		f := events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: n, Epoch: epoch}
		if _, err := s.Apply([]events.SequencedFact{{Sequence: n, Fact: f}}); err != nil {
			t.Fatal(err)
		}
	}
	data, _, err := s.Snapshot().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A snapshot that the log contradicts is not tried again; another one at the same sequence is.
func TestARefusedSnapshotIsKnownByItsPosition(t *testing.T) {
	var h follow.History
	begin := func(data []byte) follow.Batch {
		t.Helper()
		return h.Begin(3, data, 4)
	}
	bad, good := snapshotAt(t, 1), snapshotAt(t, 2)
	begin(bad)
	next := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: 4, Epoch: 2})
	if _, err := h.Take([]events.Record{{Message: next, Sequence: 4}}); !errors.Is(err, follow.ErrHistory) {
		t.Fatalf("a fact of another epoch: %v, want ErrHistory", err)
	}
	h.Forget()
	if b := begin(bad); b.Snapshot != nil {
		t.Fatal("the refused snapshot is tried again")
	}
	h.Forget()
	if b := begin(good); b.Snapshot == nil || h.Next() != 4 {
		t.Fatalf("the good snapshot is not taken; next is %d, want 4", h.Next())
	}
}
