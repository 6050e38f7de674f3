package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// unknownBackoff spaces the attempts to learn the outcome of an append, and to repeat it: 50 ms doubling to 2 s,
// without a limit on the number of attempts.
var unknownBackoff = wait.Backoff{
	Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 2 * time.Second, Steps: 20,
}

// minAtomicBatch is the number of facts from which, in a log without frames, one atomic batch is faster than single
// appends in sequence: a log that syncs takes about 9 ms for any batch, and one or two for a single fact.
const minAtomicBatch = 6

// Round identifies one round of one term, uniquely over all time.
type Round struct {
	Term   int64
	Number uint64
	// Begun is when the round began, by the leader's clock.
	Begun time.Time
}

// An epoch consists of the second in which its round began, the lowest bits of the term, and those of the round's
// number: 34, 14 and 16 of its 64 bits, which suffice for seconds until the year 2514.
const (
	numberBits = 16
	termBits   = 14
)

// Epoch returns the round's fact epoch: later than before, and never one that was used earlier. If an epoch were used
// twice (because the tail with its first use was lost), a reader of the lost tail would not notice the loss.
//
// Terms alone do not ensure that: they are revisions of the ledger and start over with a new one. Behind a larger
// epoch of the earlier ledger, every term would then take the next epoch, so two terms could take the same one. The
// clock alone may go back; then the term makes the difference. Behind an epoch of a second that is still to come, the
// round takes that second, or the next, with its own term and number.
func (r Round) Epoch(before uint64) uint64 {
	const second = uint64(1) << (termBits + numberBits)
	term, number := uint64(r.Term)&(1<<termBits-1), r.Number&(1<<numberBits-1)
	own := term<<numberBits | number
	epoch := max(before/second, uint64(max(0, r.Begun.Unix())))*second | own
	if epoch <= before {
		epoch += second
	}
	return max(epoch, before+1) // it has wrapped around, with a clock in the 26th century
}

// Writer is the one fenced writer of facts, for one round. Run is for one goroutine.
//
// It knows the end of the stream as it left it, and each append names that end, so it can append only to a log that
// nothing else has touched. It never reads the log unless the outcome of an append is unknown.
type Writer struct {
	log    eventlog.Log
	logger *slog.Logger
	// epoch is the round's epoch, and before the one that its begin names (0 for none).
	epoch, before uint64
	// last is the end of the stream as this writer last left it.
	last  eventlog.Tail
	clock clock.Clock
}

// NewWriter returns a writer that opens the fact epoch behind base, the end of the log.
func NewWriter(log eventlog.Log, logger *slog.Logger, c clock.Clock, base Base, epoch uint64) *Writer {
	before := base.Epoch
	if base.Anew {
		before = epoch
	}
	return &Writer{log: log, logger: logger, clock: c, last: base.Tail, before: before, epoch: epoch}
}

// Run appends the opening of the epoch and then facts as they arrive, those that are waiting together, without waiting
// for more, until ctx ends, when it returns nil. Otherwise it returns a *DivergedError, or the
// *eventlog.ErrRefused of a fact that the log does not accept, which the intake never produces (see reduce.Reduce). A
// fact received from facts is stored or the writer ends.
func (w *Writer) Run(ctx context.Context, cause string, facts <-chan events.Fact) error {
	err := w.Open(ctx, cause)
	for err == nil {
		var batch []eventlog.Message
		if batch, err = w.receive(ctx, facts); err == nil {
			err = w.store(ctx, batch)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Open appends the opening of the epoch.
func (w *Writer) Open(ctx context.Context, cause string) error {
	begin := w.encode(events.Fact{Op: events.OpEpochBegin, Progress: w.before, Cause: cause})
	return w.append(ctx, []eventlog.Message{begin})
}

// Store appends the facts that are waiting now, at most one batch; it does nothing if there are none.
func (w *Writer) Store(ctx context.Context, facts <-chan events.Fact) error {
	batch := w.gather(nil, facts)
	if len(batch) == 0 {
		return nil
	}
	return w.store(ctx, batch)
}

// store appends facts in order: as frames, or as one batch, or each behind the one before it.
func (w *Writer) store(ctx context.Context, facts []eventlog.Message) error {
	parts, least := slices.Chunk(facts, 1), w.log.Frames(eventlog.Facts)
	switch {
	case least > 0:
		parts = frame.Split(facts, least)
	case len(facts) >= minAtomicBatch:
		parts = slices.Chunk(facts, len(facts))
	}
	for some := range parts {
		if err := w.append(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// encode returns a fact as a message, in the round's epoch.
func (w *Writer) encode(f events.Fact) eventlog.Message {
	f.Epoch = w.epoch
	return events.EncodeFact(f)
}

// receive waits for one fact and adds those that are waiting as well.
func (w *Writer) receive(ctx context.Context, facts <-chan events.Fact) ([]eventlog.Message, error) {
	var batch []eventlog.Message
	select {
	case f := <-facts:
		batch = append(batch, w.encode(f))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return w.gather(batch, facts), nil
}

// gather adds the facts that are waiting, up to one batch: at most eventlog.MaxBatch facts, and none after the batch
// has exceeded eventlog.BatchBytes. It does not wait for more: under load facts wait anyway, and without load a fact
// that waits for company is only late.
func (w *Writer) gather(batch []eventlog.Message, facts <-chan events.Fact) []eventlog.Message {
	size := 0
	for i := range batch {
		size += len(batch[i].Data)
	}
	for len(batch) < eventlog.MaxBatch && size <= eventlog.BatchBytes {
		select {
		case f := <-facts:
			batch, size = append(batch, w.encode(f)), size+len(f.Object)
		default:
			return batch
		}
	}
	return batch
}

// append stores one batch behind last, whatever answers it gets. A missing answer is not a refusal, so it checks the
// log before it repeats anything. A crash between an append and its answer leaves a log that the next leader reads to
// its end.
func (w *Writer) append(ctx context.Context, batch []eventlog.Message) error {
	backoff := unknownBackoff
	for {
		last, err := w.log.Append(ctx, eventlog.Facts, w.last, batch)
		if err == nil {
			w.recordEnd(last, batch)
			return nil
		}
		var refused *eventlog.ErrRefused
		if errors.As(err, &refused) {
			telemetry.Refused("queue", eventlog.Facts, 1)
			return fmt.Errorf("queue: fact rejected by the log: %w", err)
		}
		stored, err := w.resolve(ctx, batch, err)
		if err != nil || stored {
			return err
		}
		if err := sleep(ctx, w.clock, backoff.Step()); err != nil {
			return err
		}
	}
}

// recordEnd records that the log ends with a batch of this writer, at a sequence. A batch that was too large for one
// message of the log has been stored as single records.
func (w *Writer) recordEnd(last uint64, batch []eventlog.Message) {
	least := w.log.Frames(eventlog.Facts)
	if last-w.last.Sequence == uint64(len(batch)) {
		least = 0
	}
	w.last = frame.Tail(least, last, batch)
}

// resolve determines the outcome of a batch whose append returned failure: stored, certainly not stored (try again),
// or the log has diverged.
func (w *Writer) resolve(ctx context.Context, batch []eventlog.Message, failure error) (stored bool, err error) {
	var wrong *eventlog.ErrWrongSequence
	if !errors.As(failure, &wrong) {
		w.logger.Warn("append to the log of facts not acknowledged", "expected", w.last.Sequence, telemetry.KeyError, failure)
	}
	backoff := unknownBackoff
	for {
		stored, err := w.compare(ctx, batch)
		var diverged *DivergedError
		if err == nil || errors.As(err, &diverged) {
			return stored, err
		}
		if err := sleep(ctx, w.clock, backoff.Step()); err != nil {
			return false, err
		}
		w.logger.Warn("log of facts not readable; retrying", telemetry.KeyError, err)
	}
}

// compare checks the records behind last. An error other than *DivergedError means that the log could not be read.
//
// If the log ends where this writer left it, the batch is not stored, provided that the last record is still this
// writer's own: a log that has lost a tail and was then written to the same length looks the same by its sequence. If
// it ends before that, the log has lost a tail. Otherwise the records are compared one by one: if the log ends before
// the batch does, another writer has appended, because a batch is stored as a whole.
func (w *Writer) compare(ctx context.Context, batch []eventlog.Message) (stored bool, err error) {
	last, err := w.log.Last(ctx, eventlog.Facts)
	if err != nil {
		return false, err
	}
	switch {
	case last == w.last.Sequence:
		return false, w.checkTail(ctx)
	case last < w.last.Sequence:
		return false, &DivergedError{Expected: w.last.Sequence, Actual: last}
	}
	end, err := w.readBack(ctx, batch, last)
	var gap *eventlog.ErrGap
	if err != nil && !errors.As(err, &gap) {
		return false, err
	}
	if end == 0 {
		return false, &DivergedError{Expected: w.last.Sequence, Actual: last}
	}
	w.recordEnd(end, batch)
	return true, nil
}

// checkTail returns *DivergedError if the record at the end of the log is not the one this writer expects there, or
// if retention has deleted it.
func (w *Writer) checkTail(ctx context.Context) error {
	if w.last.Subject == "" {
		return nil
	}
	records, last, err := recordsAt(ctx, w.log, w.last.Sequence)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) || err == nil && frame.SubjectOf(records) != w.last.Subject {
		return &DivergedError{Expected: w.last.Sequence, Actual: last}
	}
	return err
}

// readBack returns the sequence at which the batch ends, if it is behind last, and 0 if the records there are others.
// The log ends at most; if it has more records behind the batch, or behind its frame, another writer has appended after
// it, which the next append will notice.
func (w *Writer) readBack(ctx context.Context, batch []eventlog.Message, most uint64) (end uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	reader, err := w.log.Read(ctx, eventlog.Facts, w.last.Sequence+1)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for end < most {
		records, err := reader.Next(ctx)
		if err != nil {
			return 0, err
		}
		for i, r := range records {
			if !equal(r.Message, batch[0]) {
				return 0, nil
			}
			if batch, end = batch[1:], r.Sequence; len(batch) > 0 {
				continue
			}
			if i+1 < len(records) && records[i+1].Index > 0 {
				return 0, nil // a frame with more than the batch
			}
			return end, nil
		}
	}
	return 0, nil
}

// equal compares a stored message with the one sent; a log may add headers of its own.
func equal(stored, sent eventlog.Message) bool {
	if stored.Subject != sent.Subject || !bytes.Equal(stored.Data, sent.Data) {
		return false
	}
	return sent.Header.SubsetOf(stored.Header)
}

// sleep waits. It fails if ctx ends first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
