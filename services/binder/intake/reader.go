package intake

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// batchBuffer is how many batches of facts or ledger changes may wait between the reader and the goroutine that folds
// them in.
const batchBuffer = 16

// readPause paces the attempts to read the decision log again after an error: 50 ms doubling to 5 s, reset after a
// minute without an error.
var readPause = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 5 * time.Second}

const readQuiet = time.Minute

// Deps holds the systems that the reader reads from.
type Deps struct {
	// Log is read for decisions only. The facts come through Facts, which reads the log once for the whole process.
	Log    eventlog.Log
	Facts  *feed.Feed
	Ledger ledger.Store
	Logger *slog.Logger
	Clock  clock.WithTicker
}

// Reader is the intake stage of the binder.
type Reader struct {
	id   string
	deps Deps
	out  chan<- effect.Input
	// unreadable logs decisions that cannot be decoded.
	unreadable *unreadable.Log
}

// New returns the intake of binder id, which sends to out.
// Nothing runs before its methods are called.
func New(id string, deps Deps, out chan<- effect.Input) *Reader {
	return &Reader{
		id: id, deps: deps, out: out,
		unreadable: unreadable.New("binder", eventlog.Decisions, deps.Logger, deps.Clock.Now),
	}
}

// send blocks until the core accepts an input. It returns ctx's error if ctx ends first.
func (r *Reader) send(ctx context.Context, in effect.Input) error {
	select {
	case r.out <- in:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Facts follows the log of facts until ctx ends.
// The steps are turned into inputs in a goroutine of their own, so that the feed goes on while the core is busy. A core
// that stays behind gets fewer and larger steps: the feed merges those that wait.
func (r *Reader) Facts(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	steps := make(chan feed.Step, batchBuffer)
	g.Go(func() error { return r.deps.Facts.Follow(ctx, steps) })
	g.Go(func() error {
		alarm := feed.NewAlarm(unreadable.New("binder", eventlog.Facts, r.deps.Logger, r.deps.Clock.Now).Write)
		for {
			select {
			case <-ctx.Done():
				return nil
			case step := <-steps:
				alarm.Observe(step)
				if err := r.send(ctx, FromFacts(step)); err != nil {
					return nil // ctx ended
				}
			}
		}
	})
	return g.Wait()
}

// Ledger follows the ledger until ctx ends: documents first, then the partitions that this binder holds.
// It returns the error of a batch that cannot be folded in, which ends the binder.
func (r *Reader) Ledger(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan replica.Batch, batchBuffer)
	g.Go(func() error { return replica.Follow(ctx, r.deps.Ledger, batches) })
	g.Go(func() error {
		partitions := NewLedger(r.id)
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				ins, err := partitions.Fold(b)
				if err != nil {
					return err
				}
				if err := r.deliver(ctx, ins); err != nil {
					return nil // ctx ended
				}
			}
		}
	})
	return g.Wait()
}

// deliver sends inputs in their order.
func (r *Reader) deliver(ctx context.Context, ins []effect.Input) error {
	for _, in := range ins {
		if p, ok := in.(effect.PartitionsChanged); ok {
			r.deps.Logger.Info("partitions changed", "held", len(p.Held))
		}
		if err := r.send(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// recordsKept is how many of the most recently read records are remembered, in case the decision log loses some.
const recordsKept = 4 * eventlog.MaxBatch

// Decisions follows the decision log from its last record at start until ctx ends. What was reported before is in the
// ledger and the facts, or will be reported again. If the log loses records that were read, the records that it has
// stored instead are read, if they are among its last recordsKept records.
func (r *Reader) Decisions(ctx context.Context) error {
	delay := readPause.DelayWithReset(r.deps.Clock, readQuiet)
	var at cursor
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := r.readDecisions(ctx, &at); ctx.Err() == nil {
			r.deps.Logger.Warn("decision log interrupted; resuming", "from", at.next, telemetry.KeyError, err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// cursor is the position at which the decision log is read.
type cursor struct {
	// next is the sequence to read next, 0 before the start.
	next uint64
	// startedAt is the last sequence at start: records up to it are remembered, and not passed on.
	startedAt uint64
	// oldest is the lowest sequence that is remembered, or next. Records before it were read, or are from before the
	// start.
	oldest uint64
	// read holds the records from oldest on, each at its sequence modulo recordsKept.
	read []recordID
	// passed is what observe has returned for the first record of the frame that ends before next.
	passed bool
	// latest is when the record read last was stored. until is the latest of before a loss of everything that was
	// remembered: records stored later than that are passed on, even up to startedAt.
	latest, until time.Time
}

// recordID distinguishes a record from one that the log has stored in its place. Their times alone would not show which
// of two records is the later one, because the servers that stored them have different clocks.
type recordID struct {
	sequence uint64
	stored   time.Time
}

// observe moves the cursor behind the record, and reports whether the record must be passed on, which is the same for
// all records of a frame.
func (c *cursor) observe(record eventlog.Record) bool {
	if record.Index == 0 {
		c.passed = c.observeSequence(record)
	}
	return c.passed
}

// observeSequence is observe for a record by itself, and for the first one of a frame.
func (c *cursor) observeSequence(record eventlog.Record) bool {
	c.next = record.Sequence + 1
	m := &c.read[record.Sequence%recordsKept]
	if m.sequence == record.Sequence && m.stored.Equal(record.Time) {
		return false
	}
	*m, c.latest = recordID{sequence: record.Sequence, stored: record.Time}, record.Time
	if c.next > recordsKept {
		c.oldest = max(c.oldest, c.next-recordsKept)
	}
	return record.Sequence > c.startedAt || !c.until.IsZero() && record.Time.After(c.until)
}

// rewind moves the cursor back after the log has lost records: to the first remembered record, or to a new start if
// none of those is left or the start had not ended.
func (c *cursor) rewind() {
	switch {
	case c.next <= c.startedAt:
		c.next = 0
	case c.next == c.oldest:
		c.next, c.until = 0, c.latest
	default:
		c.next, c.startedAt = c.oldest, 0
	}
}

// start sets the cursor to recordsKept records before the end of the log. Those records are read without being passed
// on: what they say is in the ledger and the facts. They are only read so that the loss of some of them is noticed, and
// the records that take their places are recognized as new.
func (r *Reader) start(ctx context.Context, at *cursor) error {
	last, err := r.deps.Log.Last(ctx, eventlog.Decisions)
	if err != nil {
		return err
	}
	next := last + 1 - min(last, recordsKept)
	*at = cursor{next: next, startedAt: last, oldest: next, read: make([]recordID, recordsKept), until: at.until}
	return nil
}

// readDecisions reads from the cursor on until an error, and leaves the cursor where the next call continues. It
// evaluates gaps. If the oldest record is not beyond the cursor, the log has lost records at its end, and the cursor
// goes back. If it is beyond, retention has deleted records: that is an error only if they had to be passed on.
func (r *Reader) readDecisions(ctx context.Context, at *cursor) error {
	if at.next == 0 {
		if err := r.start(ctx, at); err != nil {
			return err
		}
	}
	for {
		err := r.readFrom(ctx, at)
		gap, is := errors.AsType[*eventlog.ErrGap](err)
		switch {
		case !is:
			return err
		case gap.Have <= at.next:
			at.rewind()
			return err
		case at.next > at.startedAt:
			at.next = gap.Have
			return err
		}
		at.next = gap.Have // retention has deleted the records before: none that had to be passed on
	}
}

// readFrom sends the decisions from the cursor on until an error. A record that cannot be decoded is logged and
// skipped: no retry would help.
func (r *Reader) readFrom(ctx context.Context, at *cursor) error {
	reader, err := r.deps.Log.Read(ctx, eventlog.Decisions, at.next)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, record := range records {
			if !at.observe(record) {
				continue
			}
			d, err := events.DecodeOutcome(record)
			if err != nil {
				r.unreadable.Record(record, err)
				continue
			}
			if err := r.send(ctx, effect.DecisionSeen{Decision: d.Decision}); err != nil {
				return err
			}
		}
	}
}
