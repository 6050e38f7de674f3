package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// workBuffer is how many requests of shards may wait; a request that does not fit is
	// dropped, and repeated with the shard's next heartbeat.
	workBuffer = 256
	// decisionsRetry is the pause before the decisions log is opened again after an error.
	decisionsRetry = time.Second
)

// Decisions sends the records of the decisions log to out, beginning behind its last
// record of now, until ctx ends; then it returns nil. History is not wanted: whoever
// takes the queue over tries every free pod again. After a gap it goes on at the end: a
// lost verdict costs the rest of an offer's lease. The only error is a record that cannot
// be decoded.
func Decisions(ctx context.Context, log events.Log, logger *slog.Logger, out chan<- []events.SequencedDecision) error {
	next := uint64(0)
	for ctx.Err() == nil {
		err := readDecisions(ctx, log, &next, out)
		var undecodable *events.DecodeError
		var gap *events.ErrGap
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &undecodable):
			return fmt.Errorf("queue: decisions: %w", err)
		case errors.As(err, &gap):
			next = 0
		}
		logger.Warn("reading decisions broke off, trying again", "error", err)
		_ = wait.PollUntilContextTimeout(ctx, decisionsRetry, decisionsRetry, false,
			func(context.Context) (bool, error) { return true, nil })
	}
	return nil
}

func readDecisions(
	ctx context.Context, log events.Log, next *uint64, out chan<- []events.SequencedDecision,
) error {
	if *next == 0 {
		last, err := log.Last(ctx, events.Decisions)
		if err != nil {
			return err
		}
		*next = last + 1
	}
	reader, err := log.Read(ctx, events.Decisions, *next)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		batch := make([]events.SequencedDecision, 0, len(records))
		for _, r := range records {
			d, err := events.DecodeDecision(r)
			if err != nil {
				return err
			}
			batch = append(batch, d)
			*next = r.Sequence + 1
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Work subscribes to the shards' requests for work until stop is called. Requests that
// cannot be read or do not fit are dropped and counted.
func Work(bus events.Bus) (requests <-chan events.WorkRequest, stop func(), err error) {
	ch := make(chan events.WorkRequest, workBuffer)
	stop, err = bus.Subscribe(events.SubjectWork, func(data []byte) {
		r, err := events.DecodeWorkRequest(data)
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
