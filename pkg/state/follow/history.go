package follow

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ErrHistory says that what has been read is not what the log holds now.
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
}

// Next is the sequence to read next; 0 when the history has to begin (anew).
func (h *History) Next() uint64 { return h.next }

// Forget makes the history begin anew. What snapshot did not serve is remembered.
func (h *History) Forget() { h.next = 0 }

// Begin starts from a snapshot (data nil: there is none) of a log whose last sequence was
// read afterwards. It returns the batch that announces the start.
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
	h.origin, h.next = position, position.Sequence+1
	h.epoch, h.epochKnown = position.Epoch, position.Sequence > 0
	return Batch{Reset: true, Snapshot: data, Barrier: last}, nil
}

// Check says whether a log with this last sequence can still hold what has been read; if
// not, it is ErrHistory.
func (h *History) Check(last uint64) error {
	if last+1 < h.next {
		return ErrHistory
	}
	return nil
}

// Take reads records and checks that each follows from the one before. What comes back must
// be applied: it counts as read. After *events.ErrGap or ErrHistory only Forget helps.
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
		if known && !state.Follows(epoch, fact.Fact) {
			if want == h.origin.Sequence+1 {
				h.refused = h.origin // it has not even led to its own next fact
			}
			return nil, ErrHistory
		}
		epoch, known = fact.Epoch, true
		facts = append(facts, fact)
		want++
	}
	h.next, h.epoch, h.epochKnown = want, epoch, known
	return facts, nil
}
