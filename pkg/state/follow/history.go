package follow

import (
	"errors"

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
}

// Next is the sequence to read next; 0 when the history has to begin (anew).
func (h *History) Next() uint64 { return h.next }

// Forget makes the history begin anew. What snapshot did not serve is remembered.
func (h *History) Forget() { h.next, h.seeking = 0, false }

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
		h.next, h.seeking, h.epochKnown = gap.Have, true, false
	}
}

// Begin starts from a snapshot (data nil: there is none) of a log whose last sequence was
// read afterwards, or from a fact behind it that begins anew. It returns the batch that
// announces the start.
func (h *History) Begin(sequence uint64, data []byte, last uint64) (Batch, error) {
	if sequence > last {
		data = nil
	}
	position, err := state.SnapshotPosition(data)
	if err != nil {
		return Batch{}, err
	}
	if position == h.refused {
		position, data = state.Position{}, nil
	}
	if h.anew > last {
		h.anew = 0
	}
	if h.anew > position.Sequence {
		position, data = state.Position{Sequence: h.anew - 1}, nil
	}
	h.origin, h.next, h.seeking = position, position.Sequence+1, false
	h.epoch, h.epochKnown = position.Epoch, position.Sequence > 0
	return Batch{Reset: true, Snapshot: data, Behind: position.Sequence, Barrier: last}, nil
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
// be applied: it counts as read. After ErrHistory only Forget helps, after *events.ErrGap
// Missing.
func (h *History) Take(records []events.Record) ([]events.SequencedFact, error) {
	facts := make([]events.SequencedFact, 0, len(records))
	want, epoch, known := h.next, h.epoch, h.epochKnown
	for _, r := range records {
		if r.Sequence < want {
			continue // redelivered
		}
		if r.Sequence > want {
			return nil, &events.ErrGap{Stream: events.Facts, Want: want, Have: r.Sequence}
		}
		fact, err := events.DecodeFact(r)
		if err != nil {
			return nil, err
		}
		if !h.follows(epoch, known, fact) {
			return nil, ErrHistory
		}
		if want++; h.seeking {
			continue
		}
		epoch, known = fact.Epoch, true
		facts = append(facts, fact)
	}
	h.next, h.epoch, h.epochKnown = want, epoch, known
	return facts, nil
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
