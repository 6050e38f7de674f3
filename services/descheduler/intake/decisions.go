package intake

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// Decisions reads the stream of decisions from the oldest kept record until ctx ends. After an error it retries with
// growing pauses.
func (r *Reader) Decisions(ctx context.Context) error {
	pause := newBackoff()
	from := uint64(1)
	for ctx.Err() == nil {
		read, err := r.readDecisions(ctx, from)
		if read > 0 {
			pause = newBackoff()
			from = read + 1
		}
		if gap, ok := errors.AsType[*eventlog.ErrGap](err); ok {
			from = afterGap(from, gap)
			r.rewind(from)
		}
		if err != nil && ctx.Err() == nil {
			r.deps.Logger.Warn("reading decisions interrupted; retrying", "from", from, telemetry.KeyError, err)
		}
		select {
		case <-ctx.Done():
		case <-r.deps.Clock.After(pause.Step()):
		}
	}
	return nil
}

// afterGap returns where to read on after a gap. The present records may differ from those that were read, so all
// that are kept are read again. A gap when reading from the start only shows where the kept records begin.
func afterGap(from uint64, gap *eventlog.ErrGap) uint64 {
	if from > 1 {
		return 1
	}
	return max(gap.Have, 1)
}

// readDecisions reads until an error or the end of ctx. It returns the last sequence applied, 0 for none, and the
// reason why it stopped.
func (r *Reader) readDecisions(ctx context.Context, from uint64) (last uint64, err error) {
	reader, err := r.deps.Log.Read(ctx, eventlog.Decisions, from)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return last, err
		}
		r.decode(records)
		if len(records) > 0 {
			last = records[len(records)-1].Sequence
		}
	}
}

// decode decodes the decisions about evictions, a small part of the stream, and skips the rest by subject. A record
// that cannot be decoded is logged and skipped. Settled is called without the lock.
func (r *Reader) decode(records []eventlog.Record) {
	var mine []events.SequencedDecision
	for _, record := range records {
		if !concerns(record.Subject) {
			continue
		}
		d, err := events.DecodeOutcome(record)
		if err != nil {
			r.unreadable.Record(record, err)
			continue
		}
		mine = append(mine, d)
	}
	for _, d := range r.recall(mine, records) {
		r.deps.OnOutcome(d.profile, d.outcome)
	}
}

// concerns checks the kind at the end of decisions.<pod uid>.<kind>.
func concerns(subject string) bool {
	kind := events.DecisionKind(subject[strings.LastIndexByte(subject, '.')+1:])
	switch kind {
	case events.DecisionEvict, events.DecisionEvicted, events.DecisionEvictRefused, events.DecisionEvictBackground,
		events.DecisionReturned:
		return true
	default:
		return false
	}
}

// settled is the outcome of an eviction that this process requested, or the report that another controller carries it
// out.
type settled struct {
	profile string
	outcome events.Decision
}

// recall applies decisions to the history, and returns the outcomes of evictions that this process requested. The
// age of a decision is the time since the log stored it. The position advances past skipped records, too, because a
// View waits for it.
func (r *Reader) recall(ds []events.SequencedDecision, records []eventlog.Record) []settled {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.deps.Clock.Now()
	stored := make(map[uint64]time.Time, len(ds))
	for i := range records {
		stored[records[i].Sequence] = records[i].Time
	}
	var ended []settled
	for _, d := range ds {
		changed := r.mu.history.Recall(d.Decision, now, now.Sub(stored[d.Sequence]))
		if !changed || d.Kind == events.DecisionEvict || d.Kind == events.DecisionReturned {
			continue
		}
		if m, ok := r.mu.mine[d.Pod.UID]; ok && m.attempt == d.Attempt {
			if d.Kind != events.DecisionEvictBackground {
				delete(r.mu.mine, d.Pod.UID)
			}
			ended = append(ended, settled{m.profile, d.Decision})
		}
	}
	if len(records) > 0 {
		r.mu.decisions = records[len(records)-1].Sequence
	}
	r.wake()
	return ended
}

// rewind records that decisions are applied again from a sequence on. Earlier ones that are no longer in the log
// cannot be waited for.
func (r *Reader) rewind(from uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.decisions = from - 1
	r.wake()
}
