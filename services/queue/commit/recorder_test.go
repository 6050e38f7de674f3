package commit

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

// rejectingLog is a log that accepts nothing while it is out.
type rejectingLog struct {
	eventlog.Log
	out atomic.Bool
}

func (m *rejectingLog) Append(
	ctx context.Context, s eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message,
) (uint64,
	error) {
	if m.out.Load() {
		return 0, errors.New("out")
	}
	return m.Log.Append(ctx, s, expect, msgs)
}

// A pod that a leader has let go without the decision reaching the log is not let go after its term: the next leader
// gives the room away. The leader's other decisions are still appended.
func TestADeposedLeaderUngatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &rejectingLog{Log: memlog.New(memlog.Options{})}
		r := NewRecorder(log, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		record := func(kind events.DecisionKind, pod string) {
			r.Record(events.Decision{
				Kind: kind, Pod: events.PodRef{UID: pod, Namespace: "ns", Name: pod}, Token: pod, Actor: "queue-a",
			})
		}
		record(events.DecisionUngate, "stored")
		synctest.Wait()
		log.out.Store(true)
		record(events.DecisionUngate, "tried")
		record(events.DecisionUngate, "waiting")
		record(events.DecisionQuarantined, "quarantined")
		synctest.Wait()
		r.Depose()
		log.out.Store(false)
		record(events.DecisionUngate, "of the next term")
		got := recorded(t, log, 3)
		if diff := cmp.Diff([]string{"stored", "quarantined", "of the next term"}, got); diff != "" {
			t.Error(diff)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// recorded returns the pods of the first decisions in a log, once there are as many as requested.
func recorded(t *testing.T, log eventlog.Log, many int) []string {
	t.Helper()
	reader, err := log.Read(t.Context(), eventlog.Decisions, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var names []string
	for len(names) < many {
		records, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			d, err := events.DecodeOutcome(record)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, d.Pod.Name)
		}
	}
	return names
}

// A decision that the log refuses is left out, and the next one is appended.
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
		if last, err := log.Last(ctx, eventlog.Decisions); err != nil || last != 1 {
			t.Errorf("%d decisions are in the log (%v), want the small one", last, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
