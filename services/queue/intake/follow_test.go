package intake

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

// Batches of decisions show how far the log has been read, whether or not the records there can be decoded: a leader
// waits for that.
func TestDecisionsReportHowFarTheyAreRead(t *testing.T) {
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
						one := []eventlog.Message{unreadable}
						if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, one); err != nil {
							t.Fatal(err)
						}
					}
				}
				add(c.before)
				if c.after == 0 && c.trim > 0 {
					log.Trim(eventlog.Decisions, c.trim)
				}
				ctx, stop := context.WithCancel(t.Context())
				out, ended := make(chan DecisionBatch, 10), make(chan error)
				go func() { ended <- Decisions(ctx, log, Begin{}, slog.New(slog.DiscardHandler), out) }()
				synctest.Wait()
				add(c.after)
				if c.after > 0 && c.trim > 0 {
					log.Trim(eventlog.Decisions, c.trim)
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

// A reader reports that the log has lost records it has read, and reads the records that are there now, even if that
// happened while it was not running.
func TestDecisionsThatTheLogHasLost(t *testing.T) {
	for name, restart := range map[string]bool{"while it is read": false, "between two lives": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { losesDecisions(t, restart) }) })
	}
}

func losesDecisions(t *testing.T, restart bool) {
	log := memlog.New(memlog.Options{})
	defer log.Close()
	add := func(uids ...string) {
		for _, uid := range uids {
			<-time.After(time.Millisecond) // by the clock of the bubble, so that records differ in when they were stored
			m := events.EncodeDecision(events.Decision{Kind: events.DecisionUngate, Pod: events.PodRef{UID: uid}})
			one := []eventlog.Message{m}
			if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, one); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := make(chan DecisionBatch, 100)
	begin := Begin{}
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- Decisions(ctx, log, begin, slog.New(slog.DiscardHandler), out) }()
		synctest.Wait()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	add("a", "b", "c")
	stop := start()
	if restart {
		stop()
	}
	for len(out) > 0 {
		b := <-out
		begin = Begin{After: b.Through, Stored: b.Stored}
	}
	log.LoseTail(eventlog.Decisions, 1)
	add("d", "e", "f")
	if restart {
		stop = start()
	}
	synctest.Wait()
	stop()
	var read []string
	shortened := 0
	for len(out) > 0 {
		b := <-out
		if b.LostTail != nil {
			shortened++
			read = nil
		}
		for _, d := range b.Decisions {
			read = append(read, d.Pod.UID)
		}
	}
	if want := []string{"a", "d", "e", "f"}; shortened != 1 || !slices.Equal(read, want) {
		t.Errorf("it says %d times that the log is shortened, and reads %q, want %q", shortened, read, want)
	}
}
