package follow

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ErrHistory reports that the log does not hold any more what has been read, or that the facts after it start from
// scratch.
var ErrHistory = errors.New("follow: the log's history changed")

// History is how far one reader has read the facts, and what may come next: all decisions about reading, without
// the reading itself. The zero value has read nothing.
type History struct {
	// next is the sequence to read next; 0 asks for Begin.
	next uint64
	// epoch is that of the last fact read, if epochKnown.
	epoch      uint64
	epochKnown bool
	// origin is the position of the snapshot this history was started from, zero if there is none; refused is that
	// of a snapshot that turned out to stand for a history the log no longer has. (A sequence alone would not do: a
	// valid snapshot may later have the same one.)
	origin, refused state.Position
	// anew is the sequence of the newest fact known to start from scratch (events.Fact.Anew), 0 if there is none:
	// nothing before it counts.
	anew uint64
	// seeking: there is nothing to start from, and the log is read in search of such a fact.
	seeking bool
	// breaks are the places where reading has stopped because a fact did not follow from the one before it, or came
	// after a hole. A writer that continues after a lost tail takes an epoch of its own. So if reading stops at the
	// same place again, a lost tail was not the reason: the record is not a fact of the writer's.
	breaks map[seam]bool
	// hole is the sequence of the newest record that could not be read, 0 if there has been none since the
	// beginning.
	hole uint64
}

// seam is the place where a fact of an epoch follows one of another epoch, or is somewhere after a hole.
type seam struct {
	sequence, before, epoch uint64
	hole                    bool
}

// maxBreaks bounds History.breaks. Beyond it, records that do not follow are treated as unreadable.
const maxBreaks = 64

// Next returns the sequence to read next; 0 when the history has to begin (again).
func (h *History) Next() uint64 { return h.next }

// Forget makes the history begin again. It remembers which snapshot was unusable.
func (h *History) Forget() {
	h.next = 0
	h.seeking = false
	h.hole = 0
}

// Hole returns the sequence of a record that could not be read; ok is false if there has been none since the
// beginning. Facts after it count for nothing until facts start from scratch.
func (h *History) Hole() (sequence uint64, ok bool) { return h.hole, h.hole != 0 }

// Missing is Forget after a read that found records gone. If these are the records that had to come first, because
// no snapshot stands for them, the remaining log is read in search of a fact that starts from scratch: before such
// a fact nothing can be reported.
func (h *History) Missing(gap *eventlog.ErrGap) {
	start := h.next == h.origin.Sequence+1 && gap.Have > h.next
	if h.next == h.anew {
		h.anew = 0
	}
	h.Forget()
	if start {
		h.next = gap.Have
		h.seeking = true
		h.epochKnown = false
	}
}

// Begin starts from a snapshot (data nil: there is none) of a log whose last sequence was read after it, or from a
// fact after it that starts from scratch. It returns the batch that announces the start. A snapshot that cannot be
// read counts as none.
func (h *History) Begin(sequence uint64, data []byte, last uint64) Batch {
	if sequence > last {
		data = nil
	}
	store, unreadable := state.Restore(data)
	if unreadable != nil {
		store, data = state.New(), nil
	}
	position := store.Position()
	if position == h.refused {
		position = state.Position{}
		data = nil
		store = state.New()
	}
	if h.anew > last {
		h.anew = 0
	}
	if h.anew > position.Sequence {
		position = state.Position{Sequence: h.anew - 1}
		data = nil
		store = state.New()
	}
	h.origin = position
	h.next = position.Sequence + 1
	h.seeking = false
	h.hole = 0
	h.epoch, h.epochKnown = position.Epoch, position.Sequence > 0
	b := Batch{Reset: true, Snapshot: data, Behind: position.Sequence, Barrier: last, Unreadable: unreadable}
	b.made = &atomic.Pointer[state.Store]{}
	b.made.Store(store)
	return b
}

// Check returns ErrHistory unless a log with this last sequence can still hold what has been read. It also returns
// ErrHistory at the end of a search, where waiting for more does not help.
func (h *History) Check(last uint64) error {
	if last+1 < h.next || h.seeking && last+1 == h.next {
		return ErrHistory
	}
	return nil
}

// Take decodes records, whole frames, and checks that each follows from the one before. The returned facts must be
// applied: they count as read. A record that cannot be read is returned as events.OpUnreadable. After ErrHistory only
// Forget helps, after *eventlog.ErrGap Missing.
func (h *History) Take(records []eventlog.Record) ([]events.SequencedFact, error) {
	facts := make([]events.SequencedFact, 0, len(records))
	want := h.next
	epoch := h.epoch
	known := h.epochKnown
	index := 0 // of the record before, in the frame that ends before want
	for _, r := range records {
		switch {
		case r.Sequence < h.next:
			continue // redelivered
		case r.Index == 0 && r.Sequence == want:
			want++
		case r.Index == 0 || r.Sequence != want-1 || r.Index != index+1:
			return nil, &eventlog.ErrGap{Stream: eventlog.Facts, Want: want, Have: r.Sequence}
		}
		index = r.Index
		fact, err := events.DecodeFact(r)
		if err == nil && !h.follows(epoch, known, fact) {
			if err = h.stray(epoch, fact); err == nil {
				return nil, ErrHistory
			}
		}
		if err == nil && h.healed(epoch, fact) {
			return nil, ErrHistory
		}
		if h.seeking {
			continue
		}
		if err != nil {
			h.hole = r.Sequence
			fact = unreadable(r, epoch, err)
		}
		if err == nil {
			h.joined(r.Sequence)
		}
		epoch, known = fact.Epoch, err == nil
		facts = append(facts, fact)
	}
	h.next = want
	h.epoch = epoch
	h.epochKnown = known
	return facts, nil
}

// unreadable returns the fact that stands for a record that cannot be read. The epoch after it is not known: the
// record may have been the begin of one.
func unreadable(r eventlog.Record, epoch uint64, err error) events.SequencedFact {
	return events.SequencedFact{
		Sequence: r.Sequence, Index: r.Index,
		Fact: events.Fact{Op: events.OpUnreadable, Epoch: epoch, Cause: err.Error()},
	}
}

// stray explains why a fact that does not follow cannot be read, if reading has stopped there before, and not
// because of the snapshot that it began from. It returns nil if reading has to begin once more.
func (h *History) stray(before uint64, f events.SequencedFact) error {
	switch {
	case f.StartsFromScratch():
		clear(h.breaks) // they are before it, or will be found again
		return nil
	case h.origin.Sequence > 0 && h.origin == h.refused:
		return nil
	case h.breaksOff(seam{sequence: f.Sequence, before: before, epoch: f.Epoch}):
		return nil
	}
	return fmt.Errorf("follow: fact %d has epoch %d, which does not follow from the previous fact", f.Sequence, f.Epoch)
}

// healed reports whether the log has to be read once more because of a fact after a hole. Only a writer that starts
// from scratch writes after a record that cannot be read. So the record may have been lost with a tail, and another
// one may be in its place.
func (h *History) healed(before uint64, f events.SequencedFact) bool {
	return h.hole != 0 && f.Sequence > h.hole &&
		h.breaksOff(seam{sequence: h.hole, before: before, epoch: f.Epoch, hole: true})
}

// joined removes the breaks at a fact that has followed now: the reason was a lost tail.
func (h *History) joined(sequence uint64) {
	if len(h.breaks) == 0 {
		return
	}
	maps.DeleteFunc(h.breaks, func(at seam, _ bool) bool { return at.sequence == sequence })
}

// breaksOff reports whether reading stops at a place for the first time, and records that.
func (h *History) breaksOff(at seam) bool {
	if h.breaks[at] || len(h.breaks) >= maxBreaks {
		return false
	}
	if h.breaks == nil {
		h.breaks = map[seam]bool{}
	}
	h.breaks[at] = true
	return true
}

// follows reports whether a fact may come next. If not, it records what can be learned from that.
func (h *History) follows(epoch uint64, known bool, f events.SequencedFact) bool {
	started := f.Sequence == h.origin.Sequence+1
	switch {
	case f.StartsFromScratch() && (h.seeking || !started || h.anew != f.Sequence):
		h.anew = f.Sequence
		return false
	case h.anew == f.Sequence && f.Index == 0 && !f.StartsFromScratch():
		h.anew = 0 // it was there before
	case h.seeking || !known || state.Follows(epoch, f.Fact):
		return true
	case started:
		h.refused = h.origin // not even the fact right after it follows from it
	}
	return false
}
