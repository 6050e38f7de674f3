package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

const (
	// retryInitial and retryCap bound the pauses between appends of one batch; retryFactor is their growth,
	// retryJitter their spread.
	retryInitial = 100 * time.Millisecond
	retryCap     = 2 * time.Second
	retryFactor  = 2.0
	retryJitter  = 0.2
	// attempts is the number of attempts for one batch before the cycle is given up; the next cycle decides again.
	attempts = 8

	tracerName = "github.com/berth-scheduler/berth/services/descheduler"
)

// Ledger commits transactions. Commit may be called again with the same transaction after an error.
type Ledger interface {
	Commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error)
}

// Deps holds the external systems of an Executor.
type Deps struct {
	Log    eventlog.Log
	Ledger Ledger
	Clock  clock.Clock
	Logger *slog.Logger
	// OnRequest is called with every request before it is appended.
	OnRequest func(decide.Eviction)
}

// Executor carries out decisions. It is for one goroutine.
type Executor struct{ deps Deps }

// New returns an executor.
func New(deps Deps) *Executor { return &Executor{deps: deps} }

// RequestEvictions requests the evictions in order, in batches, and returns how many requests are certainly in the
// log. It ends early with ctx, which must end when the leadership does. If the log refuses one of them, all others
// are appended, and the error is the refusal, an *eventlog.ErrRefused.
func (r *Executor) RequestEvictions(ctx context.Context, evictions []decide.Eviction) (written int, err error) {
	var refusal error
	for batch := range slices.Chunk(evictions, eventlog.MaxBatch) {
		if ctx.Err() != nil {
			return written, ctx.Err()
		}
		msgs := make([]eventlog.Message, 0, len(batch))
		for _, e := range batch {
			r.deps.OnRequest(e)
			e.Decision.TraceParent = r.trace(ctx, e)
			msgs = append(msgs, events.EncodeDecision(e.Decision))
		}
		done, err := r.append(ctx, msgs)
		written += done
		if err != nil {
			err = fmt.Errorf("descheduler: request %d evictions: %w", len(batch), err)
		}
		if err != nil && !isRefusal(err) {
			return written, err
		}
		refusal = cmp.Or(refusal, err)
	}
	return written, refusal
}

// isRefusal reports whether the log has refused a message for good, as opposed to an append that failed.
func isRefusal(err error) bool {
	_, is := errors.AsType[*eventlog.ErrRefused](err)
	return is
}

// AppendFindings appends findings other than requests, such as DecisionReturned. A lost one is found again in a later
// cycle, because the history does not show it.
func (r *Executor) AppendFindings(ctx context.Context, found []events.Decision) error {
	for few := range slices.Chunk(found, eventlog.MaxBatch) {
		msgs := make([]eventlog.Message, 0, len(few))
		for i := range few {
			msgs = append(msgs, events.EncodeDecision(few[i]))
		}
		if _, err := r.append(ctx, msgs); err != nil && !isRefusal(err) {
			return fmt.Errorf("descheduler: report %d pods: %w", len(few), err)
		}
	}
	return nil
}

// trace emits a span in the pod's trace and returns it as the parent of the eviction's span.
func (r *Executor) trace(ctx context.Context, e decide.Eviction) string {
	ctx, span := telemetry.StartPodSpan(ctx, otel.Tracer(tracerName), telemetry.PodSpan{
		UID: e.Decision.Pod.UID, Name: "deschedule", Attributes: []attribute.KeyValue{
			attribute.String("berth.strategy", e.Decision.Strategy),
			attribute.String("berth.profile", e.Profile),
			attribute.Int("berth.attempt", int(e.Decision.Attempt)),
		},
	})
	defer span.End()
	return telemetry.TraceParent(ctx)
}

// append appends messages, and returns how many are certainly in the log. If the log refuses one of them, the others
// are appended and the refusal is returned: the next cycle decides again.
func (r *Executor) append(ctx context.Context, msgs []eventlog.Message) (written int, err error) {
	var refusal error
	for some := range eventlog.Batches(msgs) {
		err := r.insist(ctx, "request evictions", func() error {
			for len(some) > 0 {
				_, err := r.deps.Log.Append(ctx, eventlog.Decisions, eventlog.AnySequence, some)
				rest, refused := unreadable.WithoutRefused("descheduler", eventlog.Decisions, r.deps.Logger, some, err)
				if !refused {
					return err
				}
				some, refusal = rest, err
			}
			return nil
		})
		if err != nil {
			return written, err
		}
		written += len(some)
	}
	return written, refusal
}

// insist retries an operation whose outcome is unknown; the operation must be idempotent.
func (r *Executor) insist(ctx context.Context, what string, do func() error) error {
	pause := wait.Backoff{
		Duration: retryInitial, Factor: retryFactor, Jitter: retryJitter, Steps: attempts, Cap: retryCap,
	}
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil || try == attempts {
			return err
		}
		r.deps.Logger.Warn("call failed; retrying", "operation", what, "try", try, telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.deps.Clock.After(pause.Step()):
		}
	}
}
