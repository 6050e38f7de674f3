package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
)

const (
	// workBuffer is how many requests of shards may wait. A request that does not fit is dropped, and repeated with
	// the shard's next heartbeat.
	workBuffer = 256
	// decisionsBack is how many sequences before the end of the decisions log are read at start. A waiting pod is tried
	// every few minutes, so its attempts are among the latest records.
	decisionsBack = 1 << 20
	// decisionsRetry is the pause before the decisions log is opened again after an error.
	decisionsRetry = time.Second
)

// DecisionBatch holds records of the decisions log, in order.
type DecisionBatch struct {
	Decisions []events.SequencedDecision
	// Times holds when the log stored each of Decisions.
	Times []time.Time
	// Through is how far the log has been read, whether or not the records up to there can be decoded or still exist.
	Through uint64
	// CaughtUp means that everything that was in the log when reading began has been delivered.
	CaughtUp bool
	// Stored is when the log stored the record of Through; zero if that is not known.
	Stored time.Time
	// A non-nil Shortened means that the log has lost records that were read and now ends at this sequence. Such a
	// batch contains nothing else but Through. The records that the log still has behind Through are delivered again.
	LostTail *uint64
}

// Begin is where to start reading the decisions log: behind a record that was read before, 0 for none. If the record
// stored at that time is not in the log, the log has lost it.
type Begin struct {
	After  uint64
	Stored time.Time
}

// Decisions sends the decisions log to out until ctx ends, when it returns nil. It starts at the beginning of the
// log, behind a given record or, if that is not kept, at the oldest record, but at most decisionsBack before the end.
// If retention deletes records that were still to be read, it continues at the end: a lost verdict costs the rest of
// an offer's lease, and so does a record that cannot be decoded, which is skipped. If the log has lost records that
// were read, Decisions reports that and starts again, because the log does not show where the records begin that have
// taken their sequences.
func Decisions(
	ctx context.Context, log eventlog.Log, begin Begin, logger *slog.Logger, out chan<- DecisionBatch,
) error {
	r := decisionReader{
		log: log, out: out, begin: begin, unreadable: unreadable.New("queue", eventlog.Decisions, logger, time.Now),
	}
	for ctx.Err() == nil {
		err := r.read(ctx)
		var gap *eventlog.ErrGap
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &gap):
			if err := r.skipGap(ctx, gap); err == nil {
				continue
			}
		}
		logger.Warn("reading decisions interrupted; retrying", telemetry.KeyError, err)
		_ = wait.PollUntilContextTimeout(ctx, decisionsRetry, decisionsRetry, false,
			func(context.Context) (bool, error) { return true, nil })
	}
	return nil
}

// decisionReader is one run of Decisions. It is for one goroutine. Three positions matter: next is where reading
// continues, target where the log ended when reading began (everything up to there is history), and through what the
// core has been given.
type decisionReader struct {
	log   eventlog.Log
	out   chan<- DecisionBatch
	begin Begin
	// next is the sequence to read next, 0 before the first request to the log. target is the last sequence at that
	// time.
	next, target uint64
	// through is the Through of the last batch, and stored is when the log stored that record.
	through uint64
	stored  time.Time
	// caughtUp means that everything up to target has been delivered. It never becomes false again.
	caughtUp bool
	// rereading means that the log is being read from its beginning once more.
	rereading  bool
	unreadable *unreadable.Log
}

// skipGap continues behind a gap: at the oldest record that is kept while the history is being read, later at the end.
func (r *decisionReader) skipGap(ctx context.Context, gap *eventlog.ErrGap) error {
	last, err := r.log.Last(ctx, eventlog.Decisions)
	switch {
	case err != nil:
		return err
	case r.next > 1 && (gap.Want < r.next || gap.Have <= r.next):
		return r.restart(ctx, last)
	case r.caughtUp && !r.rereading || gap.Have > last:
		r.next, r.target = last+1, last
	default:
		r.next = gap.Have
	}
	r.stored = time.Time{}
	return nil
}

// restart reports that the log has lost records that were read, and reads it once more, from decisionsBack before its
// end: the log does not show which of its records have taken sequences that were used before.
func (r *decisionReader) restart(ctx context.Context, last uint64) error {
	r.rereading = true
	r.stored = time.Time{}
	r.target = last
	r.next = 1
	if last > decisionsBack {
		r.next = last - decisionsBack + 1
	}
	r.through = r.next - 1
	return r.deliver(ctx, DecisionBatch{LostTail: &last, Through: r.through})
}

// read delivers records until an error ends it; the caller decides about the error, and calls it again. The first call
// determines where to start, and whether the record behind which to read is still the one that was read before. If
// there is nothing to read, an empty batch reports at once that the reader has caught up: a queue with an empty log
// must not wait for the first decision before it offers pods.
func (r *decisionReader) read(ctx context.Context) error {
	if r.next == 0 {
		last, err := r.log.Last(ctx, eventlog.Decisions)
		if err != nil {
			return err
		}
		r.next, r.target = r.begin.After+1, last
		if last > decisionsBack {
			r.next = max(r.next, last-decisionsBack+1)
		}
		if r.next == r.begin.After+1 {
			if err := r.verifyBegin(ctx, last); err != nil {
				return err
			}
		}
	}
	if r.next > r.target && (!r.caughtUp || r.next > r.through+1) {
		if err := r.send(ctx, DecisionBatch{}); err != nil {
			return err
		}
	}
	reader, err := r.log.Read(ctx, eventlog.Decisions, r.next)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		batch := DecisionBatch{Decisions: make([]events.SequencedDecision, 0, len(records))}
		for _, record := range records {
			r.next = record.Sequence + 1
			r.stored = record.Time
			r.rereading = false
			d, err := events.DecodeOutcome(record)
			if err != nil {
				r.unreadable.Record(record, err)
				continue
			}
			batch.Decisions, batch.Times = append(batch.Decisions, d), append(batch.Times, record.Time)
		}
		if err := r.send(ctx, batch); err != nil {
			return err
		}
	}
}

// send completes a batch with how far the log has been read, and delivers it.
func (r *decisionReader) send(ctx context.Context, batch DecisionBatch) error {
	r.caughtUp = r.caughtUp || r.next > r.target
	r.through = r.next - 1
	batch.CaughtUp = r.caughtUp
	batch.Through = r.through
	batch.Stored = r.stored
	return r.deliver(ctx, batch)
}

// verifyBegin starts again if the log does not have the record behind which to read.
func (r *decisionReader) verifyBegin(ctx context.Context, last uint64) error {
	r.stored = r.begin.Stored
	if r.begin.After == 0 || r.stored.IsZero() || r.begin.After > last {
		return nil // nothing to compare with, or the log itself reports the loss
	}
	reader, err := r.log.Read(ctx, eventlog.Decisions, r.begin.After)
	if _, gap := errors.AsType[*eventlog.ErrGap](err); gap {
		return nil // retention has deleted it
	}
	if err != nil {
		r.next = 0
		return err
	}
	defer reader.Close()
	records, err := reader.Next(ctx)
	switch {
	case err != nil:
		r.next = 0
		return err
	case records[0].Time.Equal(r.stored):
		return nil
	default:
		return r.restart(ctx, last)
	}
}

// deliver hands a batch over and waits as long as necessary: a full buffer slows the reader down.
func (r *decisionReader) deliver(ctx context.Context, batch DecisionBatch) error {
	select {
	case r.out <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Work subscribes to the shards' requests for work until stop is called. The bus delivers each request to every
// replica at most once. Requests that cannot be decoded or do not fit are dropped and counted.
func Work(bus eventlog.Bus) (requests <-chan work.Request, stop func(), err error) {
	ch := make(chan work.Request, workBuffer)
	stop, err = bus.Subscribe(work.SubjectWork, func(data []byte) {
		r, err := work.DecodeRequest(data)
		if err != nil {
			telemetry.BusDropped(1)
			return
		}
		select {
		case ch <- r:
		default:
			telemetry.BusDropped(1)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("queue: subscribe to requests for work: %w", err)
	}
	return ch, stop, nil
}
