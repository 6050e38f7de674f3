package past

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// Log is the part of the log that Live reads.
type Log interface {
	eventlog.Log
	eventlog.Snapshots
}

// Live is the log of a running Berth. Each Open reads up to the end of the stream at that time, so that reading ends
// although services go on writing. Records that retention has cut off are left out: a source begins with what the log
// still has.
type Live struct{ Log Log }

var _ rerun.Source = Live{}

// Open implements rerun.Source. A stream that ends before from has no records.
func (l Live) Open(ctx context.Context, s eventlog.Stream, from uint64) (rerun.Records, error) {
	last, err := l.Log.Last(ctx, s)
	if err != nil {
		return nil, err
	}
	if last < from {
		return &liveRecords{}, nil
	}
	reader, err := l.Log.Read(ctx, s, from)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) && gap.Have > from {
		reader, err = l.Log.Read(ctx, s, gap.Have)
	}
	if err != nil {
		return nil, err
	}
	return &liveRecords{reader: reader, last: last}, nil
}

// Snapshot implements rerun.Source.
func (l Live) Snapshot(ctx context.Context) (sequence uint64, data []byte, ok bool, err error) {
	return l.Log.Latest(ctx, eventlog.Facts)
}

// liveRecords reads a stream to a fixed end. have holds records that were read and not returned yet; at is the
// sequence of the last one that was returned, and last the end.
type liveRecords struct {
	reader   eventlog.Reader
	have     []eventlog.Record
	at, last uint64
}

// Next returns the next record, or io.EOF behind the last. Sequences may have holes, so a record beyond the end ends
// the stream as well.
func (r *liveRecords) Next(ctx context.Context) (eventlog.Record, error) {
	for len(r.have) == 0 && r.at < r.last {
		records, err := r.reader.Next(ctx)
		if err != nil {
			return eventlog.Record{}, fmt.Errorf("record behind %d: %w", r.at, err)
		}
		r.have = records
	}
	if len(r.have) == 0 || r.have[0].Sequence > r.last {
		return eventlog.Record{}, io.EOF
	}
	next := r.have[0]
	r.have, r.at = r.have[1:], next.Sequence
	return next, nil
}

// Close ends the reading. It may be called on an empty stream.
func (r *liveRecords) Close() {
	if r.reader != nil {
		r.reader.Close()
	}
}
