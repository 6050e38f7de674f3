package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// endRecords is how many records before the end are searched for a change: most records of a quiet ledger only report
// that nothing has changed.
const endRecords = 64

// Ending is the end of the ledger's history as recorded in the log.
type Ending struct {
	// Through is the revision up to which the history is complete; 0 if there is none.
	Through int64
	// Last is a change of the newest revision that has one; its ModRevision is 0 if none was found.
	Last ledger.Event
}

// Contradicts reports whether the current value of a key is incompatible with the ending: kv is that of Last's key,
// with ModRevision 0 if it does not exist.
func (e Ending) Contradicts(kv ledger.KV) bool {
	switch {
	case e.Last.ModRevision == 0 || kv.ModRevision == 0 || kv.ModRevision > e.Through:
		return false // not known, or changed since
	case e.Last.Deleted:
		return true // the key had been deleted
	}
	return kv.ModRevision != e.Last.ModRevision || string(kv.Value) != string(e.Last.Value)
}

// Recorded returns the end of the history in the log. Records that cannot be read are ignored.
func Recorded(ctx context.Context, log eventlog.Log) (Ending, error) {
	e, err := recorded(ctx, log)
	if err != nil {
		return e, fmt.Errorf("ledger history: find its end: %w", err)
	}
	return e, nil
}

func recorded(ctx context.Context, log eventlog.Log) (e Ending, err error) {
	last, err := log.Last(ctx, eventlog.Ledger)
	if err != nil || last == 0 {
		return e, err
	}
	from := max(last, endRecords) - endRecords + 1
	reader, err := log.Read(ctx, eventlog.Ledger, from)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) {
		if gap.Have > last {
			return e, nil // retention has deleted all records
		}
		reader, err = log.Read(ctx, eventlog.Ledger, max(gap.Have, 1))
	}
	if err != nil {
		return e, err
	}
	defer reader.Close()
	unpacker, err := newUnpacker()
	if err != nil {
		return e, err
	}
	defer unpacker.Close()
	for at := uint64(0); at < last; {
		records, err := reader.Next(ctx)
		if err != nil {
			return e, err
		}
		for _, r := range records {
			e.take(unpacker, r)
			at = r.Sequence
		}
	}
	return e, nil
}

func (e *Ending) take(unpacker *zstd.Decoder, r eventlog.Record) {
	p, err := decode(unpacker, r)
	if err != nil {
		return
	}
	if p.snapshot && p.number == 0 && p.after < e.Through {
		*e = Ending{} // the ledger went back
	}
	switch {
	case !p.snapshot:
		e.Through = p.through
	case p.last:
		e.Through = max(e.Through, p.after)
	}
	if len(p.changes) == 0 {
		return
	}
	newest := slices.MaxFunc(p.changes, func(a, b ledger.Event) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	if newest.ModRevision >= e.Last.ModRevision {
		e.Last = newest
	}
}
