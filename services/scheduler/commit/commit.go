package commit

import (
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
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

const (
	// txnTimeout is for a store without a timeout of its own; etcd's is shorter. A transaction that is cut off may
	// still be applied.
	txnTimeout = 10 * time.Second
	// appendTimeout bounds one append to the log; an append that is not acknowledged is repeated.
	appendTimeout = 10 * time.Second
	// decisionsBuffer is for how many steps decisions may wait for the log before the shard stops deciding.
	decisionsBuffer = 64
	// performsBuffer is how many acts of plugins may wait to be started, and how many of their answers to be
	// received.
	performsBuffer = 64
)

// retry spaces the copies of a transaction or an append whose answer was lost: 50 ms, doubling. The jitter keeps shards
// that lost their answers to the same outage from returning all at once.
func retry() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 7, Cap: 3 * time.Second}
}

// Executor carries out the effects of one shard. Do and Flush are for the deciding goroutine; Transact, Publish,
// Consult and Perform each run on one goroutine of their own.
type Executor struct {
	Deps
	// commits and results carry the one transaction in flight and its answer, so neither channel is ever full.
	commits chan step.Commit
	results chan step.Result
	// decisions carries the records of one step as one value: they are never torn apart by those of another step.
	decisions chan []events.Decision
	// flush carries the channel that Publish closes when everything before it has been written.
	flush chan chan struct{}
	// consults and advice have room for all questions that the core may have open.
	consults chan step.Consult
	advice   chan step.Advice
	// performs and performed carry the acts of plugins and their answers.
	performs  chan step.PluginRequest
	performed chan step.PluginResult
}

// Deps are the outside systems that a Executor writes to and asks.
type Deps struct {
	Store  ledger.Store
	Log    eventlog.Log
	Bus    eventlog.Bus
	Logger *slog.Logger
	// Clock measures transactions and spaces the copies of what was not answered.
	Clock clock.Clock
	// Extenders are the extenders of the profiles, by scheduler name; profiles without any may be missing.
	Extenders map[string]*extender.Set
	// Plugins are those of the profiles that have some, by scheduler name. They also ask the profile's extenders.
	Plugins map[string]Adviser
}

// Adviser is the plugins of one profile. It is safe for concurrent use.
type Adviser interface {
	// Consult answers a question. The answer has the question's ID; a plugin that fails, and the end of ctx, are
	// answers with Err.
	Consult(ctx context.Context, q step.Consult) step.Advice
	// Perform acts on a decision and returns once the plugins have acted or ctx has ended. The answer has the ID and
	// the Act of p.
	Perform(ctx context.Context, p step.PluginRequest) step.PluginResult
}

// New returns an executor. It does nothing unless Transact, Publish, Consult and Perform are running.
func New(deps Deps) *Executor {
	return &Executor{
		Deps:      deps,
		consults:  make(chan step.Consult, step.MaxConsults),
		advice:    make(chan step.Advice, step.MaxConsults),
		performs:  make(chan step.PluginRequest, performsBuffer),
		performed: make(chan step.PluginResult, performsBuffer),
		commits:   make(chan step.Commit, 1),
		results:   make(chan step.Result, 1),
		decisions: make(chan []events.Decision, decisionsBuffer),
		flush:     make(chan chan struct{}),
	}
}

// Results delivers one answer to each Commit, in their order.
func (x *Executor) Results() <-chan step.Result { return x.results }

// Do starts the effects of one step, in the order of the package documentation, and does not wait for any of them.
// Decisions block it only when the log is decisionsBuffer steps behind. It returns an error only when ctx ends. It
// keeps the slices of out, but not out itself.
func (x *Executor) Do(ctx context.Context, out *step.Output) error {
	if out.Commit != nil {
		select {
		case x.commits <- *out.Commit:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if decisions := slices.Concat(out.Lost, out.Decisions); len(decisions) > 0 {
		select {
		case x.decisions <- decisions:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if out.Request != nil {
		if err := x.Bus.Publish(work.SubjectWork, work.EncodeRequest(*out.Request)); err != nil {
			x.Logger.Warn("request for offers not sent; the next heartbeat repeats it", telemetry.KeyError, err)
		}
	}
	for _, q := range out.Consults {
		select {
		case x.consults <- q:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, p := range out.Performs {
		select {
		case x.performs <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, t := range out.Turns {
		if err := x.Bus.Publish(work.SubjectTurns, work.EncodeTurn(t)); err != nil {
			x.Logger.Warn("turn message not published", telemetry.KeyError, err)
		}
	}
	return nil
}

// Transact commits transactions, one after the other, until ctx ends. It returns an error only for a transaction that
// the store rejects as malformed: that is a bug of the core, and repeating it would not help.
func (x *Executor) Transact(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-x.commits:
			res, err := x.commit(ctx, c)
			if err != nil {
				return err
			}
			select {
			case x.results <- res:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// commit sends one copy of a transaction and returns its result. A copy after the first waits, so that a store which
// does not answer is not flooded. An unknown outcome is a result with Err: the core decides whether to send it again.
func (x *Executor) commit(ctx context.Context, c step.Commit) (step.Result, error) {
	if c.Resubmitted > 0 && !x.pause(ctx, c.Resubmitted) {
		return step.Result{ID: c.ID, Err: ctx.Err()}, nil
	}
	tctx, cancel := context.WithTimeout(ctx, txnTimeout)
	defer cancel()
	begin := x.Clock.Now()
	res, err := x.Store.Commit(tctx, c.Txn)
	var refused *ledger.TxnError
	if errors.As(err, &refused) && !refused.TooLarge {
		return step.Result{}, fmt.Errorf("scheduler: transaction %s: %w", c.Kind, err)
	}
	result := "ok"
	switch {
	case refused != nil:
		telemetry.LedgerTxn(c.Kind, "refused", x.Clock.Since(begin))
		x.Logger.Error("ledger transaction rejected for its size: etcd must accept requests of 1.5 MiB, "+
			"its default (--max-request-bytes)", "transaction", c.Kind, "bytes", c.Txn.Bytes(), telemetry.KeyError, err)
		return step.Result{ID: c.ID, Refused: fmt.Sprintf(
			"the ledger store rejects a transaction of %d bytes: %s", c.Txn.Bytes(), refused.Reason)}, nil
	case err != nil:
		result = "unknown"
		x.Logger.Warn("no answer to the transaction; sending it again", "attempt", c.Resubmitted+1,
			telemetry.KeyError, err)
	case !res.Succeeded:
		result = "conflict"
	}
	telemetry.LedgerTxn(c.Kind, result, x.Clock.Since(begin))
	return step.Result{ID: c.ID, Err: err, Txn: res}, nil
}

// pause waits before the n-th copy, and reports false when ctx ended first. The wait is computed from n alone, so that
// neither transactions nor appends carry state from one copy to the next. It stops growing at the sixth copy, at 1.6 s
// before jitter.
func (x *Executor) pause(ctx context.Context, n int) bool {
	b := retry()
	d := b.Step()
	for range min(n, b.Steps) - 1 {
		d = b.Step()
	}
	t := x.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// Publish appends decisions in order until ctx ends, or until the log is closed, which is its only error. What waits is
// written as one batch: while one append is under way, the decisions of the next steps collect.
func (x *Executor) Publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-x.decisions:
			if err := x.appendAll(ctx, x.gather(first)); err != nil {
				return err
			}
		case done := <-x.flush:
			for msgs := x.gather(nil); len(msgs) > 0; msgs = x.gather(nil) {
				if err := x.appendAll(ctx, msgs); err != nil {
					return err
				}
			}
			close(done)
		}
	}
}

// gather adds what else is queued, up to about one batch, and encodes it. It stops at half of the largest batch: the
// decisions of one step stay together, and the next ones could be too many for the rest.
func (x *Executor) gather(batch []events.Decision) []eventlog.Message {
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
		case batch = <-x.decisions:
		default:
			return msgs
		}
	}
}

// appendAll writes messages in as many batches as needed: one step may decide about more pods than fit in one.
func (x *Executor) appendAll(ctx context.Context, msgs []eventlog.Message) error {
	for some := range eventlog.Batches(msgs) {
		if err := x.append(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// append writes messages until they are acknowledged or ctx ends. Messages whose acknowledgement was lost may thus
// be in the log twice. Messages that the log refuses are left out.
func (x *Executor) append(ctx context.Context, msgs []eventlog.Message) error {
	for n := 0; ; n++ {
		if n > 0 && !x.pause(ctx, n) {
			return nil
		}
		actx, cancel := context.WithTimeout(ctx, appendTimeout)
		_, err := x.Log.Append(actx, eventlog.Decisions, eventlog.AnySequence, msgs)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, eventlog.ErrClosed):
			return fmt.Errorf("scheduler: decisions log: %w", err)
		}
		if rest, refused := unreadable.WithoutRefused("scheduler", eventlog.Decisions, x.Logger, msgs, err); refused {
			if len(rest) == 0 {
				return nil
			}
			msgs, n = rest, -1
			continue
		}
		x.Logger.Warn("decisions not acknowledged by the log; retrying", "count", len(msgs), telemetry.KeyError, err)
	}
}

// Flush waits until every decision given to Do has been written. It returns the error of ctx if that ends first.
func (x *Executor) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case x.flush <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
