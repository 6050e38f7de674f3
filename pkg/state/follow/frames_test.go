package follow_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// inFrames gives records the sequences of frames of these sizes, from a sequence on.
func inFrames(records []eventlog.Record, from uint64, sizes ...int) (out []eventlog.Record) {
	for _, size := range sizes {
		for i := range size {
			r := records[len(out)]
			r.Sequence, r.Index = from, i
			out = append(out, r)
		}
		from++
	}
	return out
}

// Whole frames are taken once, and however they are delivered again; a frame of which a part is missing is a gap.
func TestFramesAreTakenWhole(t *testing.T) {
	all := inFrames(append(opened(1, 0, 1, 1), facts(1, 2, 10)...), 1, 3, 1, 4, 2)
	var h follow.History
	h.Begin(0, nil, 4)
	take := func(want int, records ...eventlog.Record) {
		t.Helper()
		taken, err := h.Take(records)
		if err != nil || len(taken) != want {
			t.Fatalf("took %d facts, %v, want %d", len(taken), err, want)
		}
		for i, f := range taken {
			r := records[len(records)-want+i]
			if f.Sequence != r.Sequence || f.Index != r.Index {
				t.Errorf("fact %d is %d.%d, want %d.%d", i, f.Sequence, f.Index, r.Sequence, r.Index)
			}
		}
	}
	take(3, all[:3]...)
	take(1, all[:4]...)
	take(0, all[3:4]...)
	for name, torn := range map[string][]eventlog.Record{
		"its first record":    all[5:8],
		"one in the middle":   {all[4], all[6], all[7]},
		"a frame before":      all[8:],
		"the frame, not once": {all[4], all[4]},
	} {
		var gap *eventlog.ErrGap
		if _, err := h.Take(torn); !errors.As(err, &gap) {
			t.Errorf("%s is missing: %v, want a gap", name, err)
		}
	}
	take(6, all...)
	if h.Next() != 5 {
		t.Errorf("next is %d, want 5", h.Next())
	}
}

// A record of a frame that cannot be read is a hole; the others of the frame are read and checked.
func TestAHoleInAFrame(t *testing.T) {
	for at := range 3 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			all := inFrames(append(opened(1, 0, 1, 1), facts(1, 2, 4)...), 1, 1, 3)
			all[1+at].Header = nil
			var h follow.History
			h.Begin(0, nil, 2)
			// What comes after an unreadable record may be the repair of it: it is read once more.
			taken, err := h.Take(all)
			if errors.Is(err, follow.ErrHistory) {
				h.Forget()
				h.Begin(0, nil, 2)
				taken, err = h.Take(all)
			}
			if err != nil || len(taken) != 4 {
				t.Fatalf("took %d facts, %v, want 4", len(taken), err)
			}
			for i, f := range taken[1:] {
				if unreadable := f.Op == events.OpUnreadable; unreadable != (i == at) || f.Sequence != 2 || f.Index != i {
					t.Errorf("fact %d is %d.%d %s", i, f.Sequence, f.Index, f.Op)
				}
			}
			if hole, there := h.Hole(); !there || hole != 2 {
				t.Errorf("a hole at %d, %t, want 2", hole, there)
			}
		})
	}
}
