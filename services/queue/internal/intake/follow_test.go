package intake

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

// Batches of decisions say how far the log has been read, whether or not what stands there can be: a leader waits for
// that.
func TestDecisionsTellHowFarTheyAreRead(t *testing.T) {
	unreadable := events.EncodeDecision(events.Decision{
		Kind: events.DecisionUngate, Pod: events.PodRef{UID: "a", Namespace: "ns", Name: "a"}, Token: "1", Actor: "queue-a",
	})
	unreadable.Data = []byte{0xff}
	for name, c := range map[string]struct {
		before, after int
		trim          uint64
		want          uint64
	}{
		"an empty log":                {want: 0},
		"what stood there":            {before: 3, want: 3},
		"what came":                   {before: 3, after: 2, want: 5},
		"what is kept no more":        {before: 3, trim: 4, want: 3},
		"what was dropped meanwhile":  {before: 3, after: 2, trim: 6, want: 5},
		"what was dropped as it came": {after: 2, trim: 3, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Options{})
				defer log.Close()
				add := func(n int) {
					for range n {
						one := []events.Message{unreadable}
						if _, err := log.Append(t.Context(), events.Decisions, events.AnySequence, one); err != nil {
							t.Fatal(err)
						}
					}
				}
				add(c.before)
				if c.after == 0 && c.trim > 0 {
					log.Trim(events.Decisions, c.trim)
				}
				ctx, stop := context.WithCancel(t.Context())
				out, ended := make(chan DecisionBatch, 10), make(chan error)
				go func() { ended <- Decisions(ctx, log, 1, slog.New(slog.DiscardHandler), out) }()
				synctest.Wait()
				add(c.after)
				if c.after > 0 && c.trim > 0 {
					log.Trim(events.Decisions, c.trim)
				}
				synctest.Wait()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				close(out)
				var last DecisionBatch
				for last = range out {
				}
				if last.Through != c.want || !last.CaughtUp {
					t.Errorf("read up to %d (caught up: %t), want %d", last.Through, last.CaughtUp, c.want)
				}
			})
		})
	}
}
