package rerun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// At is a moment in the log: the fact with that Sequence, or else everything stored by that Time (of the log's
// clock); the end of the log if both are zero.
type At struct {
	Sequence uint64
	Time     time.Time
}

// Snapshot is the state at a moment: the facts, and the ledger at that time. A nil Ledger means that nothing is known
// of it. For a moment given as a sequence, the ledger is that of the time at which the fact was stored, by the log's
// clock.
type Snapshot struct {
	Facts  *state.Store
	Ledger *replica.View
	// Time is when the last fact was stored, by the log's clock; zero if that is not known.
	Time time.Time
}

// Rebuild builds the state at a moment. A *NotThereError means that the log does not reach back to it, or holds
// facts that cannot be read; a ledger whose history begins later is left out without an error.
func Rebuild(ctx context.Context, src Source, at At) (Snapshot, error) {
	picture := Snapshot{Facts: state.New()}
	if err := picture.readFacts(ctx, src, at); err != nil {
		return picture, err
	}
	if err := picture.Facts.Snapshot().Unreadable(); err != nil {
		return picture, &NotThereError{err.Error()} // and the facts did not begin anew before the moment
	}
	if at.Sequence > 0 {
		at.Time = picture.Time
	}
	return picture, picture.readLedger(ctx, src, at)
}

// readFacts applies the facts up to the moment. The end of the log is its end for a moment in the future, but an
// error for a sequence that it has not reached.
func (p *Snapshot) readFacts(ctx context.Context, src Source, at At) error {
	first := at.Sequence
	if at.Sequence == 0 && at.Time.IsZero() {
		first = ^uint64(0) // the newest snapshot is sufficient
	}
	facts, err := openFacts(ctx, src, first)
	if err != nil {
		return err
	}
	defer facts.records.Close()
	if at.Sequence == 0 {
		if err := facts.skipToSnapshot(ctx, ^uint64(0)); err != nil {
			return err
		}
	}
	for {
		next, err := facts.peek(ctx)
		var missing *NotThereError
		ended := errors.As(err, &missing)
		if err != nil && !ended {
			return err
		}
		if ended && at.Sequence > facts.at {
			return err
		}
		// The next fact is looked at but not applied if it is beyond the moment.
		ended = ended || at.Sequence > 0 && next.Sequence > at.Sequence ||
			at.Sequence == 0 && !at.Time.IsZero() && next.Time.After(at.Time)
		if ended {
			break
		}
		p.Time = next.Time
		if err := p.apply(ctx, facts, next.Sequence); err != nil {
			return err
		}
	}
	// No fact was applied: the state is that of the snapshot, or empty.
	if facts.start != nil {
		return p.apply(ctx, facts, facts.at)
	}
	return nil
}

// apply brings the facts to a sequence.
func (p *Snapshot) apply(ctx context.Context, facts *factCursor, sequence uint64) error {
	batches, err := facts.batchesTo(ctx, sequence)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if b.Reset {
			if p.Facts, err = b.Store(); err != nil {
				return err
			}
		}
		if _, err := p.Facts.Apply(b.Facts); err != nil {
			return fmt.Errorf("facts: %w", err)
		}
	}
	return nil
}

// readLedger folds the ledger's history up to the moment.
func (p *Snapshot) readLedger(ctx context.Context, src Source, at At) error {
	records, err := src.Open(ctx, eventlog.Ledger, 1)
	if err != nil {
		return fmt.Errorf("ledger history: %w", err)
	}
	defer records.Close()
	cursor, err := history.NewCursor(until{records, at.Time})
	if err != nil {
		return err
	}
	defer cursor.Close()
	view := replica.NewView()
	_, err = cursor.End(ctx, func(b replica.Batch) error {
		_, err := view.Fold(b)
		return err
	})
	var gap *history.GapError
	if errors.As(err, &gap) {
		return nil // the history begins later
	}
	if err == nil {
		p.Ledger = view
	}
	return err
}

// until yields the records that had been stored by a time; all if it is zero.
type until struct {
	Records
	time time.Time
}

// Next returns io.EOF at the first record after the time.
func (u until) Next(ctx context.Context) (eventlog.Record, error) {
	r, err := u.Records.Next(ctx)
	if err == nil && !u.time.IsZero() && r.Time.After(u.time) {
		return r, io.EOF
	}
	return r, err
}
