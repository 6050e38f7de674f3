package rerun

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// Source is a log that is read from its oldest record to its end as of the time it was opened: a live log, or a
// bundle.
type Source interface {
	// Open reads a stream from a sequence on, or from the oldest kept record if that is younger.
	Open(ctx context.Context, s eventlog.Stream, from uint64) (Records, error)
	// Snapshot returns the newest snapshot of the facts; ok is false if there is none.
	Snapshot(ctx context.Context) (sequence uint64, data []byte, ok bool, err error)
}

// Records yields records in order, and io.EOF after the last. Close must be called; records are not used after it.
type Records interface {
	Next(ctx context.Context) (eventlog.Record, error)
	Close()
}

// factCursor reads the facts forward, one record ahead. The log may begin late (retention), have gaps, or begin from
// scratch in the middle, when a leader has published all facts again (Anew).
type factCursor struct {
	records Records
	// ahead is a record that has been read and not been returned; at is the sequence of the last one returned.
	ahead *eventlog.Record
	at    uint64
	// start is the reset that announces the beginning, until it has been returned.
	start *follow.Batch
	// later is where reading can begin if the log no longer reaches back far enough: the newest snapshot, if an
	// earlier fact was requested; nil for nowhere.
	later *follow.Batch
	// epoch is the epoch of the last fact read, if epochKnown.
	epoch      uint64
	epochKnown bool
}

// openFacts begins at the newest snapshot if no earlier fact is requested, otherwise at the oldest record. first is
// the sequence of the first state that will be requested.
func openFacts(ctx context.Context, src Source, first uint64) (*factCursor, error) {
	sequence, data, ok, err := src.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("snapshot of the facts: %w", err)
	}
	var later *follow.Batch
	if ok && sequence > first {
		later = resetAt(sequence, data)
	}
	// A snapshot that is newer than the first requested fact would hide states that are needed.
	if !ok || sequence > first {
		sequence, data = 0, nil
	}
	records, err := src.Open(ctx, eventlog.Facts, sequence+1)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	return &factCursor{records: records, at: sequence, start: resetAt(sequence, data), later: later}, nil
}

// resetAt returns a reset to a snapshot, or to an empty state. Its barrier is the snapshot, so that nodes are usable
// at once and not only at the end of the log: a recorded decision shows that the shard was past its barrier.
func resetAt(sequence uint64, data []byte) *follow.Batch {
	return &follow.Batch{Reset: true, Snapshot: data, Behind: sequence, Barrier: sequence}
}

// peek returns the next record without moving on; a *NotThereError at the end of the log.
func (c *factCursor) peek(ctx context.Context) (*eventlog.Record, error) {
	if c.ahead == nil {
		r, err := c.records.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, &NotThereError{fmt.Sprintf("the facts in the log end at %d", c.at)}
		}
		if err != nil {
			return nil, fmt.Errorf("facts: %w", err)
		}
		c.ahead = &r
	}
	return c.ahead, nil
}

// skipToSnapshot moves to the newest snapshot if the log's first facts are gone and the snapshot is not beyond the
// sequence most. The states before the snapshot are not available then. Nothing has been returned before, so nothing
// is lost.
func (c *factCursor) skipToSnapshot(ctx context.Context, most uint64) error {
	if c.start == nil || c.later == nil || c.later.Behind > most {
		return nil
	}
	r, err := c.peek(ctx)
	if err != nil || r.Sequence == c.at+1 {
		return err
	}
	if fact, err := events.DecodeFact(*r); err == nil && fact.StartsFromScratch() {
		return nil
	}
	// The snapshot contains these facts.
	for r.Sequence <= c.later.Behind {
		c.ahead = nil
		if r, err = c.peek(ctx); err != nil {
			return err
		}
	}
	c.start = c.later
	c.at = c.later.Behind
	c.later = nil
	return nil
}

// batchesTo returns the batches that bring a store to exactly this sequence. They begin with a reset if nothing has
// been returned before, or if all facts were published again on the way. After an error, facts that were read may be
// lost, which the caller sees by the changed position.
func (c *factCursor) batchesTo(ctx context.Context, sequence uint64) ([]follow.Batch, error) {
	if sequence < c.at {
		return nil, &NotThereError{fmt.Sprintf("the state is already at fact %d, past %d", c.at, sequence)}
	}
	if sequence > c.at {
		if err := c.skipToSnapshot(ctx, sequence); err != nil {
			return nil, err
		}
		if err := c.checkNext(ctx); err != nil {
			return nil, err
		}
	}
	var out []follow.Batch
	if c.start != nil {
		out, c.start = append(out, *c.start), nil
	}
	var facts []events.SequencedFact
	for {
		r, err := c.upTo(ctx, sequence)
		if err != nil {
			return nil, err
		}
		if r == nil {
			break
		}
		fact := c.read(*r)
		switch {
		case fact.StartsFromScratch():
			// Nothing before it counts.
			out, facts = []follow.Batch{*resetAt(r.Sequence-1, nil)}, nil
		case r.Sequence != c.at+1 && (r.Index == 0 || r.Sequence != c.at):
			return nil, &NotThereError{fmt.Sprintf("the log does not hold the facts from %d to %d", c.at+1, r.Sequence-1)}
		}
		facts = append(facts, fact)
		c.at = r.Sequence
		c.ahead = nil
	}
	if len(facts) > 0 {
		out = append(out, follow.Batch{Facts: facts})
	}
	return out, nil
}

// upTo returns the next record without moving on, nil behind the last one of a sequence. The log may end there.
func (c *factCursor) upTo(ctx context.Context, sequence uint64) (*eventlog.Record, error) {
	r, err := c.peek(ctx)
	var ended *NotThereError
	switch {
	case errors.As(err, &ended) && c.at >= sequence:
		return nil, nil
	case err != nil:
		return nil, err
	case r.Sequence > sequence:
		return nil, nil
	}
	return r, nil
}

// checkNext returns an error if the next fact is missing from the log. It loses no fact that it reads, so that the
// caller may go on with a later request. A fact that begins from scratch needs no predecessor.
func (c *factCursor) checkNext(ctx context.Context) error {
	r, err := c.peek(ctx)
	if err != nil || r.Sequence == c.at+1 {
		return err
	}
	if fact, err := events.DecodeFact(*r); err == nil && fact.StartsFromScratch() {
		return nil
	}
	return &NotThereError{fmt.Sprintf("the log does not hold the facts from %d to %d", c.at+1, r.Sequence-1)}
}

// read returns the fact of a record; events.OpUnreadable for a fact that cannot be read or does not follow. A store
// marks its state as unreadable then, until the facts begin from scratch.
func (c *factCursor) read(r eventlog.Record) events.SequencedFact {
	fact, err := events.DecodeFact(r)
	if err == nil && !fact.StartsFromScratch() && c.epochKnown && !state.Follows(c.epoch, fact.Fact) {
		err = fmt.Errorf("epoch %d does not follow on %d", fact.Epoch, c.epoch)
	}
	if c.epochKnown = err == nil; err != nil {
		return events.SequencedFact{
			Sequence: r.Sequence, Index: r.Index, Fact: events.Fact{Op: events.OpUnreadable, Cause: err.Error()},
		}
	}
	c.epoch = fact.Epoch
	return fact
}

// NotThereError explains what the log does not hold.
type NotThereError struct{ What string }

// Error returns the sentence as it is: callers put it into verdicts.
func (e *NotThereError) Error() string { return e.What }
