package follow

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ErrHistory says that what has been read is not what the log holds now, or that what stands
// behind it begins anew.
var ErrHistory = errors.New("follow: the log's history changed")

// History is how far one reader has read the facts, and what may come next: all that is
// decided about reading, without the reading itself. The zero value has read nothing.
type History struct {
	// next is the sequence to read next; 0 asks for Begin.
	next uint64
	// epoch of the last fact read, when epochKnown.
	epoch      uint64
	epochKnown bool
	// origin is the position of the snapshot this history was started from, zero for none;
	// refused is that of one that turned out to stand for a history the log no longer has.
	// (Not its sequence alone: a good one may come to stand at the same.)
	origin, refused state.Position
	// anew is the sequence of the newest fact known to begin anew, 0 for none: nothing before
	// it counts.
	anew uint64
	// seeking: there is nothing to start from, and the log is read in search of such a fact.
	seeking bool
	// breaks is where reading has broken off because a fact did not follow from the one before it, or stood
	// behind a hole. Who writes behind a lost tail takes an epoch of its own. So what breaks off at the same place
	// once more was not explained by a lost tail: the record is not a fact of the writer's.
	breaks map[seam]bool
	// hole is the sequence of the newest record that could not be read, 0 for none since the beginning.
	hole uint64
}

// seam is where a fact of an epoch stands behind one of another, or somewhere behind a hole.
type seam struct {
	sequence, before, epoch uint64
	hole                    bool
}

// maxBreaks bounds History.breaks. Records beyond it that do not follow cannot be read.
const maxBreaks = 64

// Next is the sequence to read next; 0 when the history has to begin (anew).
func (h *History) Next() uint64 { return h.next }

// Forget makes the history begin anew. What snapshot did not serve is remembered.
func (h *History) Forget() {
	h.next = 0
	h.seeking = false
	h.hole = 0
}

// Hole is the sequence of a record that could not be read; ok is false if there has been none since the
// beginning. What is behind it counts for nothing until facts begin anew.
func (h *History) Hole() (sequence uint64, ok bool) { return h.hole, h.hole != 0 }

// Missing is Forget after a read that found records gone. If they are those that had to come
// first, because no snapshot stands for them, what the log still has is read in search of a
// fact that begins anew: there is nothing to be told before it.
func (h *History) Missing(gap *events.ErrGap) {
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

// Begin starts from a snapshot (data nil: there is none) of a log whose last sequence was
// read afterwards, or from a fact behind it that begins anew. It returns the batch that
// announces the start. A snapshot that cannot be read is none.
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

// Check says whether a log with this last sequence can still hold what has been read; if
// not, it is ErrHistory. Nor does it help to wait for more at the end of a search.
func (h *History) Check(last uint64) error {
	if last+1 < h.next || h.seeking && last+1 == h.next {
		return ErrHistory
	}
	return nil
}

// Take reads records and checks that each follows from the one before. What comes back must
// be applied: it counts as read. A record that cannot be read comes back as events.OpUnreadable.
// After ErrHistory only Forget helps, after *events.ErrGap Missing.
func (h *History) Take(records []events.Record) ([]events.SequencedFact, error) {
	facts := make([]events.SequencedFact, 0, len(records))
	want := h.next
	epoch := h.epoch
	known := h.epochKnown
	for _, r := range records {
		if r.Sequence < want {
			continue // redelivered
		}
		if r.Sequence > want {
			return nil, &events.ErrGap{Stream: events.Facts, Want: want, Have: r.Sequence}
		}
		fact, err := events.DecodeFact(r)
		if err == nil && !h.follows(epoch, known, fact) {
			if err = h.stray(epoch, fact); err == nil {
				return nil, ErrHistory
			}
		}
		if err == nil && h.healed(epoch, fact) {
			return nil, ErrHistory
		}
		if want++; h.seeking {
			continue
		}
		if err != nil {
			h.hole = r.Sequence
			fact = unreadable(r.Sequence, epoch, err)
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

// unreadable stands for a record that cannot be read. Which epoch comes behind it is not known: it may
// have been the begin of one.
func unreadable(sequence, epoch uint64, err error) events.SequencedFact {
	return events.SequencedFact{
		Sequence: sequence, Fact: events.Fact{Op: events.OpUnreadable, Epoch: epoch, Cause: err.Error()},
	}
}

// stray says why a fact that does not follow cannot be read, if reading has broken off there before, and not
// because of the snapshot that it began from. Nil if it has to begin once more.
func (h *History) stray(before uint64, f events.SequencedFact) error {
	switch {
	case f.Anew():
		clear(h.breaks) // they are before it, or will be found again
		return nil
	case h.origin.Sequence > 0 && h.origin == h.refused:
		return nil
	case h.breaksOff(seam{sequence: f.Sequence, before: before, epoch: f.Epoch}):
		return nil
	}
	return fmt.Errorf("follow: fact %d is of epoch %d, which does not follow from the fact before it", f.Sequence, f.Epoch)
}

// healed says whether the log has to be read once more because of a fact behind a hole. Nobody writes behind a
// record that cannot be read but who begins anew: it may have been lost with a tail, and another one be
// in its place.
func (h *History) healed(before uint64, f events.SequencedFact) bool {
	return h.hole != 0 && f.Sequence > h.hole &&
		h.breaksOff(seam{sequence: h.hole, before: before, epoch: f.Epoch, hole: true})
}

// joined forgets where reading broke off at a fact that has followed now: it was a lost tail.
func (h *History) joined(sequence uint64) {
	if len(h.breaks) == 0 {
		return
	}
	maps.DeleteFunc(h.breaks, func(at seam, _ bool) bool { return at.sequence == sequence })
}

// breaksOff says whether reading breaks off at a place for the first time, and notes that.
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

// follows says whether a fact may come next. If not, it notes what is to be learned from that.
func (h *History) follows(epoch uint64, known bool, f events.SequencedFact) bool {
	started := f.Sequence == h.origin.Sequence+1
	switch {
	case f.Anew() && (h.seeking || !started || h.anew != f.Sequence):
		h.anew = f.Sequence
		return false
	case h.anew == f.Sequence && !f.Anew():
		h.anew = 0 // it stood there once
	case h.seeking || !known || state.Follows(epoch, f.Fact):
		return true
	case started:
		h.refused = h.origin // it has not even led to its own next fact
	}
	return false
}
