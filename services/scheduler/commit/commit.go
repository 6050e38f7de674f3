package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/aside"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

const (
	// txnTimeout is for a store without a timeout of its own; etcd's is shorter.
	txnTimeout = 10 * time.Second
	// appendTimeout bounds one append to the log; an append that is not acknowledged is repeated.
	appendTimeout = 10 * time.Second
	// decisionsBuffer is for how many steps decisions may wait for the log before the shard stops deciding.
	decisionsBuffer = 64
	// performsBuffer is how many acts of plugins may wait to be started, and how many of their answers to be
	// received.
	performsBuffer = 64
)

// retry spaces the copies of a transaction or an append whose answer was lost.
func retry() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 7, Cap: 3 * time.Second}
}

// Room carries out the effects of one shard.
type Room struct {
	Deps
	commits   chan step.Commit
	results   chan step.Result
	decisions chan []events.Decision
	flush     chan chan struct{}
	consults  chan step.Consult
	advice    chan step.Advice
	performs  chan step.Perform
	performed chan step.Performed
}

// Deps are the outside systems that a Room writes to and asks.
type Deps struct {
	Store  ledger.Store
	Log    eventlog.Log
	Bus    eventlog.Bus
	Logger *slog.Logger
	// Extenders are the extenders of the profiles, by scheduler name; profiles without any may be missing.
	Extenders map[string]*extender.Set
	// Plugins are those of the profiles that have some, by scheduler name. They also ask the profile's extenders.
	Plugins map[string]Adviser
}

// Adviser answers a question, and acts on a decision, until ctx ends. Safe for concurrent use.
type Adviser interface {
	Consult(ctx context.Context, q step.Consult) step.Advice
	Perform(ctx context.Context, p step.Perform) step.Performed
}

// New returns a room. It does nothing unless Transact, Publish, Consult and Perform are running.
func New(deps Deps) *Room {
	return &Room{
		Deps:      deps,
		consults:  make(chan step.Consult, step.MaxConsults),
		advice:    make(chan step.Advice, step.MaxConsults),
		performs:  make(chan step.Perform, performsBuffer),
		performed: make(chan step.Performed, performsBuffer),
		commits:   make(chan step.Commit, 1),
		results:   make(chan step.Result, 1),
		decisions: make(chan []events.Decision, decisionsBuffer),
		flush:     make(chan chan struct{}),
	}
}

// Results delivers the answer to each Commit.
func (r *Room) Results() <-chan step.Result { return r.results }

// Do starts the effects of one step. Decisions block it only when the log is decisionsBuffer steps behind.
func (r *Room) Do(ctx context.Context, out step.Output) error {
	if out.Commit != nil {
		select {
		case r.commits <- *out.Commit:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if decisions := slices.Concat(out.Lost, out.Decisions); len(decisions) > 0 {
		select {
		case r.decisions <- decisions:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if out.Request != nil {
		if err := r.Bus.Publish(work.SubjectWork, work.EncodeRequest(*out.Request)); err != nil {
			r.Logger.Warn("request for offers not sent; the next heartbeat repeats it", telemetry.KeyError, err)
		}
	}
	for _, q := range out.Consults {
		select {
		case r.consults <- q:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, p := range out.Performs {
		select {
		case r.performs <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, t := range out.Turns {
		if err := r.Bus.Publish(work.SubjectTurns, work.EncodeTurn(t)); err != nil {
			r.Logger.Warn("turn message not published", telemetry.KeyError, err)
		}
	}
	return nil
}

// Transact commits transactions until ctx ends.
func (r *Room) Transact(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-r.commits:
			res, err := r.commit(ctx, c)
			if err != nil {
				return err
			}
			select {
			case r.results <- res:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (r *Room) commit(ctx context.Context, c step.Commit) (step.Result, error) {
	if c.Resubmitted > 0 && !pause(ctx, c.Resubmitted) {
		return step.Result{ID: c.ID, Err: ctx.Err()}, nil
	}
	tctx, cancel := context.WithTimeout(ctx, txnTimeout)
	defer cancel()
	begin := time.Now()
	res, err := r.Store.Commit(tctx, c.Txn)
	var refused *ledger.TxnError
	if errors.As(err, &refused) && !refused.TooLarge {
		return step.Result{}, fmt.Errorf("scheduler: transaction %s: %w", c.Kind, err)
	}
	result := "ok"
	switch {
	case refused != nil:
		telemetry.LedgerTxn(c.Kind, "refused", time.Since(begin))
		r.Logger.Error("ledger transaction rejected for its size: etcd must accept requests of 1.5 MiB, "+
			"its default (--max-request-bytes)", "transaction", c.Kind, "bytes", c.Txn.Bytes(), telemetry.KeyError, err)
		return step.Result{ID: c.ID, Refused: fmt.Sprintf(
			"the ledger store rejects a transaction of %d bytes: %s", c.Txn.Bytes(), refused.Reason)}, nil
	case err != nil:
		result = "unknown"
		r.Logger.Warn("no answer to the transaction; sending it again", "attempt", c.Resubmitted+1,
			telemetry.KeyError, err)
	case !res.Succeeded:
		result = "conflict"
	}
	telemetry.LedgerTxn(c.Kind, result, time.Since(begin))
	return step.Result{ID: c.ID, Err: err, Txn: res}, nil
}

// pause waits before the n-th copy; false when ctx ended.
func pause(ctx context.Context, n int) bool {
	b := retry()
	d := b.Step()
	for range min(n, b.Steps) - 1 {
		d = b.Step()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Publish appends decisions in order until ctx ends. Flush writes what is queued.
func (r *Room) Publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-r.decisions:
			if err := r.appendAll(ctx, r.gather(first)); err != nil {
				return err
			}
		case done := <-r.flush:
			for msgs := r.gather(nil); len(msgs) > 0; msgs = r.gather(nil) {
				if err := r.appendAll(ctx, msgs); err != nil {
					return err
				}
			}
			close(done)
		}
	}
}

// gather adds what else is queued, up to about one batch, and encodes it.
func (r *Room) gather(batch []events.Decision) []eventlog.Message {
	msgs := make([]eventlog.Message, 0, len(batch))
	size := 0
	for {
		for _, d := range batch {
			m := events.EncodeDecision(d)
			size += len(m.Data)
			msgs = append(msgs, m)
		}
		if len(msgs) > eventlog.MaxBatch/2 || size > eventlog.BatchBytes {
			return msgs
		}
		select {
		case batch = <-r.decisions:
		default:
			return msgs
		}
	}
}

// appendAll writes messages in as many batches as needed: one step may decide about more pods than fit in one.
func (r *Room) appendAll(ctx context.Context, msgs []eventlog.Message) error {
	for some := range eventlog.Batches(msgs) {
		if err := r.append(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// append writes messages until they are acknowledged or ctx ends. Messages whose acknowledgement was lost may thus
// be in the log twice. Messages that the log refuses are left out.
func (r *Room) append(ctx context.Context, msgs []eventlog.Message) error {
	for n := 0; ; n++ {
		if n > 0 && !pause(ctx, n) {
			return nil
		}
		actx, cancel := context.WithTimeout(ctx, appendTimeout)
		_, err := r.Log.Append(actx, eventlog.Decisions, eventlog.AnySequence, msgs)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, eventlog.ErrClosed):
			return fmt.Errorf("scheduler: decisions log: %w", err)
		}
		if rest, refused := aside.WithoutRefused("scheduler", eventlog.Decisions, r.Logger, msgs, err); refused {
			if len(rest) == 0 {
				return nil
			}
			msgs, n = rest, -1
			continue
		}
		r.Logger.Warn("decisions not acknowledged by the log; retrying", "count", len(msgs), telemetry.KeyError, err)
	}
}

// Flush waits until every decision given to Do has been written or ctx ends.
func (r *Room) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case r.flush <- done:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	return nil
}
