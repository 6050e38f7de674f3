package follow_test

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// snapshotAt returns the state after some facts of an epoch.
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
	if _, err := h.Take([]eventlog.Record{{Message: next, Sequence: 4}}); !errors.Is(err, follow.ErrHistory) {
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

// facts returns records of an epoch from a sequence on.
func facts(epoch, from, to uint64) (out []eventlog.Record) {
	for n := from; n <= to; n++ {
		f := events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: n, Epoch: epoch}
		out = append(out, eventlog.Record{Message: events.EncodeFact(f), Sequence: n})
	}
	return out
}

// opened returns the records of an epoch that continues from another one, from a sequence on.
func opened(epoch, before, from, to uint64) []eventlog.Record {
	f := events.Fact{Op: events.OpEpochBegin, Epoch: epoch, Progress: before}
	return append([]eventlog.Record{{Message: events.EncodeFact(f), Sequence: from}}, facts(epoch, from+1, to)...)
}

// A log that loses its tail, and loses another one before the reader has come as far again, contains nothing
// unreadable. Nor does one whose lost tail a snapshot stands for.
func TestLostTailsAreNoHoles(t *testing.T) {
	var h follow.History
	take := func(records ...eventlog.Record) {
		t.Helper()
		if _, err := h.Take(records); err != nil {
			t.Fatal(err)
		}
	}
	breaks := func(records ...eventlog.Record) {
		t.Helper()
		if _, err := h.Take(records); !errors.Is(err, follow.ErrHistory) {
			t.Fatalf("facts that do not follow: %v, want ErrHistory", err)
		}
		h.Forget()
	}
	h.Begin(0, nil, 5)
	take(facts(1, 1, 5)...)
	breaks(opened(2, 1, 4, 8)[2:]...) // 4 and 5 were lost, and what has been read of the next epoch begins at 6
	h.Begin(0, nil, 8)
	take(append(facts(1, 1, 3), opened(2, 1, 4, 4)...)...)
	breaks(opened(3, 1, 4, 8)[1:]...) // and lost again
	h.Begin(3, snapshotAt(t, 9), 8)
	breaks(opened(3, 1, 4, 8)...) // of a history that is lost
	h.Begin(3, snapshotAt(t, 9), 8)
	breaks(append(facts(8, 1, 3), opened(3, 1, 4, 8)...)...) // and another one
	h.Begin(0, nil, 8)
	take(append(facts(1, 1, 3), opened(3, 1, 4, 8)...)...)
	if at, there := h.Hole(); there {
		t.Errorf("fact %d cannot be read, want none", at)
	}
}

// However many tails the log loses during the life of a reader, none of them leaves a hole.
func TestManyLostTailsAreNoHoles(t *testing.T) {
	var h follow.History
	h.Begin(0, nil, 5)
	if _, err := h.Take(facts(1, 1, 5)); err != nil {
		t.Fatal(err)
	}
	read := uint64(5)
	for epoch := uint64(2); epoch < 150; epoch++ { // each loses all but 3 facts, and adds more than there were
		log := append(facts(1, 1, 3), opened(epoch, 1, 4, read+2)...)
		if _, err := h.Take(log[read:]); !errors.Is(err, follow.ErrHistory) {
			t.Fatalf("epoch %d: %v, want ErrHistory", epoch, err)
		}
		h.Forget()
		h.Begin(0, nil, read+2)
		if _, err := h.Take(log); err != nil {
			t.Fatal(err)
		}
		if at, there := h.Hole(); there {
			t.Fatalf("epoch %d: fact %d cannot be read, want none", epoch, at)
		}
		read += 2
	}
}

// A place where reading stops repeatedly, however the reader begins, holds a record that is not a fact.
func TestStrayFactIsAHole(t *testing.T) {
	var h follow.History
	log := append(append(facts(1, 1, 3), facts(7, 4, 4)...), facts(1, 5, 8)...)
	for begins := 1; ; begins++ {
		h.Begin(0, nil, 8)
		if _, err := h.Take(log); err == nil {
			break
		}
		if h.Forget(); begins > 3 {
			t.Fatal("the reader begins for the fourth time, want a hole")
		}
	}
	if at, _ := h.Hole(); at != 4 && at != 5 {
		t.Errorf("the hole is at %d, want 4, or the fact behind it", at)
	}
}

// A record that cannot be read is lost with a tail, and other records take its place before the reader looks again,
// of the same epoch or the next: the hole is gone.
func TestHoleThatIsLostUnseen(t *testing.T) {
	poison := eventlog.Record{Message: eventlog.Message{Subject: "facts.pod.x.1", Data: []byte("poison")}, Sequence: 4}
	for name, again := range map[string][]eventlog.Record{
		"the same epoch": facts(1, 4, 6), "the next epoch": opened(2, 1, 4, 6),
	} {
		t.Run(name, func(t *testing.T) {
			var h follow.History
			h.Begin(0, nil, 4)
			if _, err := h.Take(append(facts(1, 1, 3), poison)); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Take(again[1:]); !errors.Is(err, follow.ErrHistory) {
				t.Fatalf("facts behind a record that cannot be read: %v, want ErrHistory", err)
			}
			h.Forget()
			h.Begin(0, nil, 6)
			if _, err := h.Take(append(facts(1, 1, 3), again...)); err != nil {
				t.Fatal(err)
			}
			if at, there := h.Hole(); there {
				t.Errorf("fact %d cannot be read, want none", at)
			}
		})
	}
}
