package intake

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// TestDecisionsInThePlaceOfLostOnesAreRead: a decision that the log stores where it has lost others is one that others
// rely on, as a removal of a gate, and none is read twice.
func TestDecisionsInThePlaceOfLostOnesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		defer log.Close()
		add := func(uids ...string) {
			for _, uid := range uids {
				time.Sleep(time.Millisecond) // by the clock of the bubble
				m := events.EncodeDecision(events.Decision{Kind: events.DecisionUngate, Pod: events.PodRef{UID: uid}})
				if _, err := log.Append(t.Context(), events.Decisions, events.AnySequence, []events.Message{m}); err != nil {
					t.Fatal(err)
				}
			}
		}
		add("before")
		out := make(chan decide.Input, 100)
		r := New("binder-0", Deps{Log: log, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}}, out)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Decisions(ctx) }()
		synctest.Wait()
		add("a", "b", "c")
		synctest.Wait()
		log.LoseTail(events.Decisions, 2)
		add("d", "e", "f")
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		var read []string
		for len(out) > 0 {
			if in, ok := (<-out).(decide.DecisionSeen); ok {
				read = append(read, in.Decision.Pod.UID)
			}
		}
		if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(read, want) {
			t.Errorf("it reads %q, want %q", read, want)
		}
	})
}
