package leader

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// retryPause is the wait before another candidacy, round or claim after an error.
	retryPause = time.Second
	// stopTimeout bounds each step that a leader still takes after it was asked to stop (the last snapshot, resigning),
	// and the request that confirms that it still leads.
	stopTimeout = 5 * time.Second
)

// retry makes a request until it succeeds, with a pause after each failure. It returns an error only when ctx ends.
func retry[T any](ctx context.Context, d *Deps, operation string, request func() (T, error)) (T, error) {
	for {
		answer, err := request()
		if err == nil {
			return answer, nil
		}
		d.Logger.Warn("call failed; retrying", "operation", operation, telemetry.KeyError, err)
		pause(ctx, d.Clock)
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
	}
}

// pause waits for retryPause, or until ctx ends, which the caller checks.
func pause(ctx context.Context, c clock.Clock) { _ = sleep(ctx, c, retryPause) }

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
