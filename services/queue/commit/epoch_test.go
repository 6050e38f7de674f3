package commit

import (
	"testing"
	"time"
)

// No two rounds share an epoch, even if the log has lost what the first round published, and if the ledger, whose
// revisions are the terms, has started over in between.
func TestEpochsAreUsedOnce(t *testing.T) {
	at := time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC)
	large := Round{Term: 1 << 40, Begun: at.Add(-time.Hour)}.Epoch(0)
	rounds := []struct {
		what   string
		round  Round
		before uint64
	}{
		{"the first", Round{Term: 9, Begun: at}, large},
		{"the next of the term", Round{Term: 9, Number: 1, Begun: at}, large},
		{"the next term, in the same second", Round{Term: 12, Begun: at}, large},
		{"the same term of another ledger", Round{Term: 9, Begun: at.Add(time.Second)}, large},
		{"a later term, by a clock that has gone back", Round{Term: 20, Begun: at.Add(-time.Minute)}, 0},
		{"a clock before 1970", Round{Term: 21, Begun: time.Unix(-5, 0)}, 0},
	}
	seen := map[uint64]string{}
	for _, r := range rounds {
		epoch := r.round.Epoch(r.before)
		if epoch <= r.before {
			t.Errorf("%s: epoch %d behind %d, want a later one", r.what, epoch, r.before)
		}
		if first, again := seen[epoch]; again {
			t.Errorf("%s and %s have epoch %d", first, r.what, epoch)
		}
		seen[epoch] = r.what
	}
	if epoch := (Round{Begun: time.Unix(0, 0)}).Epoch(^uint64(1)); epoch != ^uint64(0) {
		t.Errorf("epoch %d behind the last but one", epoch)
	}
}

// Behind a leader whose clock was ahead, and with the log's tail lost each time, rounds have distinct epochs until
// real time has caught up.
func TestEpochsAreUsedOnceBehindAClockThatWasAhead(t *testing.T) {
	at := time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC)
	for name, before := range map[string]uint64{
		"of a lower term":  Round{Term: 2, Begun: at.Add(24 * time.Hour)}.Epoch(0),
		"of a term amidst": Round{Term: 20, Number: 1, Begun: at.Add(24 * time.Hour)}.Epoch(0),
		"of a higher term": Round{Term: 50, Begun: at.Add(24 * time.Hour)}.Epoch(0),
		"of no term":       Round{Begun: at.Add(24 * time.Hour)}.Epoch(0) - 1,
	} {
		checkEpochsBehind(t, name, before, at)
	}
}

func checkEpochsBehind(t *testing.T, name string, before uint64, at time.Time) {
	seen := map[uint64]Round{}
	for i := range 32 * 3 {
		term := int64(9 + i/3)
		round := Round{Term: term, Number: uint64(i % 3), Begun: at.Add(time.Duration(term) * time.Minute)}
		epoch := round.Epoch(before)
		if epoch <= before {
			t.Errorf("%s: epoch %d of %+v, want a later one than %d", name, epoch, round, before)
		}
		if first, again := seen[epoch]; again {
			t.Errorf("%s: %+v and %+v have epoch %d", name, first, round, epoch)
		}
		seen[epoch] = round
	}
}
