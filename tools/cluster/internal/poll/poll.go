package poll

import (
	"context"
	"log/slog"
	"time"
)

// every is the time between two passes. Clusters with stand-ins are small, or change little.
const every = 200 * time.Millisecond

// Run calls pass until ctx ends, also after errors. It logs an error unless it is that of the last failed pass again.
func Run(ctx context.Context, logger *slog.Logger, pass func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	logged := ""
	for {
		switch err := pass(ctx); {
		case err == nil:
			logged = ""
		case ctx.Err() == nil && err.Error() != logged:
			logged = err.Error()
			logger.Warn("request failed; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
