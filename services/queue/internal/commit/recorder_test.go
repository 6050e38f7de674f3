package commit

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

// A decision that the log does not take is left out, and the next one is appended.
func TestARefusedDecisionIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		log.RefuseAbove(1000)
		r := NewRecorder(log, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for uid, message := range map[string]string{"large": strings.Repeat("x", 2000), "small": "no"} {
			r.Record(events.Decision{Kind: events.DecisionQuarantined, Pod: events.PodRef{UID: uid}, Message: message})
		}
		synctest.Wait()
		if last, err := log.Last(ctx, events.Decisions); err != nil || last != 1 {
			t.Errorf("%d decisions are in the log (%v), want the small one", last, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
