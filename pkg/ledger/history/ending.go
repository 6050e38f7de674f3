package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// lookBack is how many records before the end are searched for a change: most records of a quiet ledger
// only say that nothing has changed.
const lookBack = 64

// Ending is what the log says last of the ledger's history.
type Ending struct {
	// Through is the revision that the history goes up to; 0 for none.
	Through int64
	// Last is a change of the newest revision that has one; its ModRevision is 0 if none was found.
	Last ledger.Event
}

// Contradicts says whether what a key holds now cannot follow on the ending: kv is that of Last's key, with
// ModRevision 0 if there is none.
func (e Ending) Contradicts(kv ledger.KV) bool {
	switch {
	case e.Last.ModRevision == 0 || kv.ModRevision == 0 || kv.ModRevision > e.Through:
		return false // not known, or changed since
	case e.Last.Deleted:
		return true // it was not there any more
	}
	return kv.ModRevision != e.Last.ModRevision || string(kv.Value) != string(e.Last.Value)
}

// Recorded is how the history in the log ends. Records that cannot be read are none.
func Recorded(ctx context.Context, log events.Log) (Ending, error) {
	e, err := recorded(ctx, log)
	if err != nil {
		return e, fmt.Errorf("ledger history: where it ends: %w", err)
	}
	return e, nil
}

func recorded(ctx context.Context, log events.Log) (e Ending, err error) {
	last, err := log.Last(ctx, events.Ledger)
	if err != nil || last == 0 {
		return e, err
	}
	from := max(last, lookBack) - lookBack + 1
	reader, err := log.Read(ctx, events.Ledger, from)
	var gap *events.ErrGap
	if errors.As(err, &gap) {
		if gap.Have > last {
			return e, nil // retention has taken all there was
		}
		reader, err = log.Read(ctx, events.Ledger, max(gap.Have, 1))
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

func (e *Ending) take(unpacker *zstd.Decoder, r events.Record) {
	p, err := decode(unpacker, r)
	if err != nil {
		return
	}
	if p.picture && p.number == 0 && p.after < e.Through {
		*e = Ending{} // the ledger went back
	}
	switch {
	case !p.picture:
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
