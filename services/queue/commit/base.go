package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
	"github.com/berth-scheduler/berth/pkg/state"
)

// readBackTimeout bounds one read of the log. The records are known to exist, so a reader that delivers nothing for
// that long is broken.
const readBackTimeout = 10 * time.Second

// DivergedError reports that the log is not as the writer last left it: another writer appended, or the log lost a
// tail that it had acknowledged. It is not known whether anything of the current batch is stored.
type DivergedError struct {
	// Expected is the expected last sequence. Actual is the log's last sequence, 0 if it is not known.
	Expected, Actual uint64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("queue: the log of facts ends at %d with unexpected records, want the end at %d: "+
		"another writer, or a lost tail",
		e.Expected, e.Actual)
}

// Stands returns nil if a position belongs to the log's current history. It returns *DivergedError if the log has
// lost the facts applied up to there, even if it has grown past the position again since.
func Stands(ctx context.Context, log eventlog.Log, p state.Position) error {
	records, last, err := recordsAt(ctx, log, p.Sequence)
	if err != nil {
		return err
	}
	fact, err := events.DecodeFact(records[0])
	if err != nil {
		return err
	}
	if fact.Epoch != p.Epoch {
		return &DivergedError{Expected: p.Sequence, Actual: last}
	}
	return nil
}

// Base is the starting point of a round: the record behind which it begins, and the epoch of that record. The zero
// value is the base of a round on an empty log.
type Base struct {
	// Tail is the log's end, and Epoch the epoch of the fact there (0 for none).
	Tail  eventlog.Tail
	Epoch uint64
	// Anew means that the content of the log is disregarded. The round publishes everything, and begins with an epoch
	// that marks this.
	Anew bool
}

// Behind returns the base of a round that continues from p, which must be the end of the log. It returns
// *DivergedError if p is not the end, or is the end of another history.
func Behind(ctx context.Context, log eventlog.Log, p state.Position) (Base, error) {
	b, err := end(ctx, log)
	if err != nil {
		return Base{}, err
	}
	known := b.Tail.Subject != "" || p.Sequence == 0
	if b.Tail.Sequence != p.Sequence || b.Epoch != p.Epoch || !known {
		return Base{}, &DivergedError{Expected: p.Sequence, Actual: b.Tail.Sequence}
	}
	return b, nil
}

// Anew returns the base of a round that continues from nothing, whatever the log holds: its last record need not be a
// fact.
func Anew(ctx context.Context, log eventlog.Log) (Base, error) {
	b, err := end(ctx, log)
	var undecodable *events.DecodeError
	if errors.As(err, &undecodable) {
		err = nil
	}
	b.Anew = true
	return b, err
}

// end reads the end of the log. Of a record that retention has deleted only the sequence is known; of one that is not
// a fact (*events.DecodeError) only the sequence and the subject.
func end(ctx context.Context, log eventlog.Log) (Base, error) {
	last, err := log.Last(ctx, eventlog.Facts)
	if err != nil || last == 0 {
		return Base{}, err
	}
	b := Base{Tail: eventlog.Tail{Sequence: last}}
	records, _, err := recordsAt(ctx, log, last)
	var diverged *DivergedError
	var gap *eventlog.ErrGap
	switch {
	case errors.As(err, &gap):
		return b, nil
	case errors.As(err, &diverged):
		return Base{}, err
	case err != nil:
		return Base{}, err
	}
	b.Tail.Subject = frame.SubjectOf(records)
	for _, record := range records {
		fact, err := events.DecodeFact(record)
		if err != nil {
			return b, err
		}
		b.Epoch = fact.Epoch
	}
	return b, nil
}

// recordsAt reads the record at a sequence, or those of the frame there. It returns *DivergedError if the log does not
// reach that far, and *eventlog.ErrGap if retention has deleted them.
func recordsAt(
	ctx context.Context, log eventlog.Log, sequence uint64,
) (records []eventlog.Record, last uint64, err error) {
	if last, err = log.Last(ctx, eventlog.Facts); err != nil {
		return nil, 0, err
	}
	if last < sequence {
		return nil, last, &DivergedError{Expected: sequence, Actual: last}
	}
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	reader, err := log.Read(ctx, eventlog.Facts, sequence)
	if err != nil {
		return nil, last, err
	}
	defer reader.Close()
	if records, err = reader.Next(ctx); err != nil {
		return nil, last, err
	}
	after := slices.IndexFunc(records, func(r eventlog.Record) bool { return r.Sequence != sequence })
	if after > 0 {
		records = records[:after]
	}
	return records, last, nil
}
