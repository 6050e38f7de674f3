package feed

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// facts returns facts about pods, numbered from 1.
func facts(all ...events.Fact) []events.SequencedFact {
	out := make([]events.SequencedFact, len(all))
	for i, f := range all {
		f.Kind = events.KindPod
		out[i] = events.SequencedFact{Sequence: uint64(i + 1), Fact: f}
	}
	return out
}

func begins(epoch, before uint64) events.Fact {
	return events.Fact{Op: events.OpEpochBegin, Epoch: epoch, Progress: before}
}

func reaches(epoch, version uint64) events.Fact {
	return events.Fact{Op: events.OpProgress, Epoch: epoch, Progress: version}
}

// Seen counts facts that a state cannot be built from, and forgets those from before all facts were republished.
func TestSeen(t *testing.T) {
	unreadable := events.Fact{Op: events.OpUnreadable, Epoch: 5}
	for name, c := range map[string]struct {
		facts       []events.Fact
		epoch, pods uint64
	}{
		"nothing":                    {nil, 0, 0},
		"progress":                   {[]events.Fact{reaches(5, 40), reaches(5, 30)}, 5, 40},
		"an object":                  {[]events.Fact{{Op: events.OpUpsert, Epoch: 5, ResourceVersion: 41}}, 5, 41},
		"a deleted object":           {[]events.Fact{{Op: events.OpDelete, Epoch: 5, ResourceVersion: 42}}, 5, 42},
		"an open epoch":              {[]events.Fact{reaches(5, 40), begins(6, 5)}, 6, 40},
		"behind an unreadable fact":  {[]events.Fact{reaches(5, 40), unreadable, reaches(5, 50)}, 5, 50},
		"told anew":                  {[]events.Fact{reaches(5, 40), begins(6, 6), reaches(6, 7)}, 6, 7},
		"told anew, of which unseen": {[]events.Fact{reaches(5, 40), unreadable, reaches(6, 7)}, 6, 7},
		"read again":                 {[]events.Fact{reaches(5, 40), begins(6, 5), reaches(6, 60), reaches(5, 90)}, 6, 60},
	} {
		seen := NewFolder().seen
		seen.learn(facts(c.facts...))
		if got := seen.Versions[events.KindPod]; got != c.pods || seen.Epoch != c.epoch {
			t.Errorf("%s: pods were at %d, epoch %d; want %d, %d", name, got, seen.Epoch, c.pods, c.epoch)
		}
	}
}

// When the facts are read again from a snapshot, Seen keeps what it has, unless the snapshot is of a later epoch.
func TestSeenOfFactsThatAreReadAgain(t *testing.T) {
	for epoch, want := range map[uint64]uint64{4: 40, 5: 40, 6: 30} {
		seen := NewFolder().seen
		seen.learn(facts(reaches(5, 40)))
		again := state.New()
		if _, err := again.Apply(facts(begins(epoch, epoch), reaches(epoch, 30))); err != nil {
			t.Fatal(err)
		}
		seen.restart(again.Position())
		if got := seen.Versions[events.KindPod]; got != want {
			t.Errorf("from epoch %d on: pods were at %d, want %d", epoch, got, want)
		}
	}
}
