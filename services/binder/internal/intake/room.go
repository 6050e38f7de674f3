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
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/telemetry/aside"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// batchBuffer is how many batches of facts or ledger changes may wait between the reader
// and the one that folds them in.
const batchBuffer = 16

// readPause paces the attempts to read the decision log again after an error: 50 ms
// doubling to 5 s, anew after a minute without one.
var readPause = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 5 * time.Second}

const readQuiet = time.Minute

// Deps are the worlds the room listens to.
type Deps struct {
	Log       events.Log
	Snapshots events.Snapshots
	Ledger    ledger.Store
	Logger    *slog.Logger
	Clock     clock.WithTicker
}

// Room is the binder's intake.
type Room struct {
	id   string
	deps Deps
	out  chan<- decide.Input
	// unreadable are notes about decisions.
	unreadable *aside.Notes
}

// New returns the intake of binder id, which sends to out.
func New(id string, deps Deps, out chan<- decide.Input) *Room {
	return &Room{
		id: id, deps: deps, out: out,
		unreadable: aside.New("binder", events.Decisions, deps.Logger, deps.Clock.Now),
	}
}

func (r *Room) send(ctx context.Context, in decide.Input) error {
	select {
	case r.out <- in:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Facts follows the log of facts until ctx ends.
func (r *Room) Facts(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan follow.Batch, batchBuffer)
	g.Go(func() error { return follow.New(r.deps.Log, r.deps.Snapshots).Run(ctx, batches) })
	g.Go(func() error {
		notes := aside.New("binder", events.Facts, r.deps.Logger, r.deps.Clock.Now)
		facts, alarm := NewFacts(), follow.NewAlarm(notes.Write)
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				in, err := facts.Fold(b)
				if err != nil {
					return err
				}
				alarm.Look(b, facts.Unreadable())
				if err := r.send(ctx, in); err != nil {
					return nil // ctx ended
				}
			}
		}
	})
	return g.Wait()
}

// Ledger follows the ledger until ctx ends: documents first, then who holds what.
func (r *Room) Ledger(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan ledger.ViewBatch, batchBuffer)
	g.Go(func() error { return ledger.Follow(ctx, r.deps.Ledger, batches) })
	g.Go(func() error {
		promises := NewPromises(r.id)
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				ins, err := promises.Fold(b)
				if err != nil {
					return err
				}
				if err := r.tell(ctx, ins); err != nil {
					return nil // ctx ended
				}
			}
		}
	})
	return g.Wait()
}

func (r *Room) tell(ctx context.Context, ins []decide.Input) error {
	for _, in := range ins {
		if p, ok := in.(decide.PartitionsChanged); ok {
			r.deps.Logger.Info("binder partitions", "held", len(p.Held))
		}
		if err := r.send(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// readBack is how many records before its end the decision log is read again after it has lost some.
const readBack = 4 * events.MaxBatch

// Decisions follows the decision log from its last record at start until ctx ends. What
// was said before is in the ledger and the facts, or will be said again. If the log loses what was read, what it has
// stored since is read, as far as that is among its last readBack records.
func (r *Room) Decisions(ctx context.Context) error {
	delay := readPause.DelayWithReset(r.deps.Clock, readQuiet)
	var at place
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := r.readDecisions(ctx, &at); ctx.Err() == nil {
			r.deps.Logger.Warn("decision log broke, reading on", "from", at.next, "error", err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// place is where the decision log is read: the sequence to read next, 0 for behind its end, and when the log stored the
// last record that was read. Records of until or before have been read; the log has lost some since.
type place struct {
	next        uint64
	read, until time.Time
}

// behind moves the place to behind the end of the log, or readBack records before it.
func (r *Room) behind(ctx context.Context, at *place, back uint64) error {
	last, err := r.deps.Log.Last(ctx, events.Decisions)
	if err == nil {
		at.next = last + 1 - min(last, back)
	}
	return err
}

func (r *Room) readDecisions(ctx context.Context, at *place) error {
	if at.next == 0 {
		if err := r.behind(ctx, at, 0); err != nil {
			return err
		}
	}
	err := r.readFrom(ctx, at)
	gap, is := errors.AsType[*events.ErrGap](err)
	switch {
	case !is:
	case gap.Have > at.next:
		at.next = gap.Have // retention has taken what is before
	default:
		at.until = at.read
		if failed := r.behind(ctx, at, readBack); failed != nil {
			at.next = 0
		}
	}
	return err
}

func (r *Room) readFrom(ctx context.Context, at *place) error {
	reader, err := r.deps.Log.Read(ctx, events.Decisions, at.next)
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
			if at.next = record.Sequence + 1; !record.Time.After(at.until) {
				continue
			}
			at.read = record.Time
			d, err := events.DecodeOutcome(record)
			if err != nil {
				r.unreadable.Record(record, err)
				continue
			}
			if err := r.send(ctx, decide.DecisionSeen{Decision: d.Decision}); err != nil {
				return err
			}
		}
	}
}
