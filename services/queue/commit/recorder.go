package commit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
)

// recordBuffer is how many of the queue's own decisions may wait for the log. They are rare. One that does not fit is
// dropped and logged.
const recordBuffer = 1024

// recordBackoff spaces the attempts to append a decision: 50 ms doubling to 2 s, without a limit on the number of
// attempts.
var recordBackoff = wait.Backoff{
	Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 2 * time.Second, Steps: 20,
}

// Recorder appends the queue's own decisions to the log, in order. A decision may be appended twice when an answer of
// the log is lost: readers identify decisions by their token.
//
// The queue records two kinds of decisions: that a pod is in quarantine or too large, from which the binder informs the
// pod's owner, and that a pod may leave its quota gate, which the binder carries out. Losing the former costs an
// explanation. Losing the latter costs time: the core requests the removal again.
//
// Record and Depose may be called while Run runs.
type Recorder struct {
	log     eventlog.Log
	logger  *slog.Logger
	records chan record
	// ended counts the terms of this replica that have ended.
	ended atomic.Uint64
}

// record is a decision, with the number of terms that had ended when it was made.
type record struct {
	events.Decision
	ended uint64
}

// NewRecorder returns a recorder; Run must be called for it to append anything.
func NewRecorder(log eventlog.Log, logger *slog.Logger) *Recorder {
	return &Recorder{log: log, logger: logger, records: make(chan record, recordBuffer)}
}

// Record enqueues a decision. It never blocks.
func (r *Recorder) Record(d events.Decision) {
	select {
	case r.records <- record{d, r.ended.Load()}:
	default:
		r.logger.Warn("decision dropped: too many are waiting for the log",
			"kind", d.Kind, "namespace", d.Pod.Namespace, "pod", d.Pod.Name)
	}
}

// Depose drops the decisions to let pods go that are not in the log yet: the next leader lets go as many pods as
// there is room for, and does not know of them. A decision that is being appended at this moment may still reach the
// log.
func (r *Recorder) Depose() { r.ended.Add(1) }

// deposed reports whether a decision is void because its term has ended.
func (r *Recorder) deposed(d record) bool {
	return d.Kind == events.DecisionUngate && d.ended != r.ended.Load()
}

// Run appends the enqueued decisions until ctx ends, and then returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case d := <-r.records:
			r.append(ctx, d)
		case <-ctx.Done():
			return nil
		}
	}
}

// append appends one decision and retries until it is stored, the log refuses it, its term has ended, or ctx ends.
func (r *Recorder) append(ctx context.Context, d record) {
	backoff, msgs := recordBackoff, []eventlog.Message{events.EncodeDecision(d.Decision)}
	for !r.deposed(d) {
		_, err := r.log.Append(ctx, eventlog.Decisions, eventlog.AnySequence, msgs)
		if err == nil || ctx.Err() != nil {
			return
		}
		if _, refused := unreadable.WithoutRefused("queue", eventlog.Decisions, r.logger, msgs, err); refused {
			return
		}
		r.logger.Warn("decision not appended; retrying", "kind", d.Kind, telemetry.KeyError, err)
		if sleep(ctx, clock.RealClock{}, backoff.Step()) != nil {
			return
		}
	}
}
