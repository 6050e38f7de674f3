package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pollEvery is how often Eventually looks.
const pollEvery = 100 * time.Millisecond

// Eventually polls until check returns nothing missing. An error of check ends the wait; what was missing last is
// part of the error when time is up.
func Eventually(
	ctx context.Context, limit time.Duration, what string, check func(context.Context) (missing string, err error),
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := "nothing was seen yet"
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		missing, err := check(ctx)
		if err != nil && ctx.Err() != nil {
			// The deadline cut this look short; the previous one is more informative.
			return false, nil
		}
		last = missing
		return missing == "", err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("not within %s: %s; last seen: %s", limit, what, last)
	default:
		return fmt.Errorf("waiting for: %s: %w", what, err)
	}
}
