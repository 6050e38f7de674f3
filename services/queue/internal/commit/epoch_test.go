package commit

import (
	"testing"
	"time"
)

// No two rounds have one epoch, also where the log has lost what the first told and where the ledger, whose
// revisions terms are, has begun anew meanwhile.
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
	if epoch, later := (Round{Begun: time.Unix(0, 0)}).Epoch(large), large+1; epoch != later {
		t.Errorf("epoch %d behind %d by a clock that is far back, want %d", epoch, large, later)
	}
}
