package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

func evictions(n int) []decide.Eviction {
	out := make([]decide.Eviction, n)
	for i := range out {
		out[i].Decision = events.Decision{
			Kind: events.DecisionEvict, Attempt: 1, Token: "00000000000000aa",
			Pod: events.PodRef{UID: fmt.Sprintf("uid-%d", i), Namespace: "default", Name: "pod"},
		}
	}
	return out
}

func room(log *memlog.Log, asking func(decide.Eviction)) *Executor {
	return New(Deps{Log: log, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler), OnRequest: asking})
}

// TestManyAsks: more than one append accepts, in order, each recorded before it is written.
func TestManyAsks(t *testing.T) {
	log := memlog.New(memlog.Options{})
	const n = 2*eventlog.MaxBatch + 1
	noted := 0
	r := room(log, func(e decide.Eviction) {
		if want := fmt.Sprintf("uid-%d", noted); e.Decision.Pod.UID != want {
			t.Fatalf("noted %s, want %s", e.Decision.Pod.UID, want)
		}
		last, err := log.Last(t.Context(), eventlog.Decisions)
		if err != nil || last > uint64(noted) {
			t.Fatalf("%s is in the log before it was noted (last %d, error %v)", e.Decision.Pod.UID, last, err)
		}
		noted++
	})
	written, err := r.RequestEvictions(t.Context(), evictions(n))
	last, lastErr := log.Last(t.Context(), eventlog.Decisions)
	if err != nil || lastErr != nil || written != n || last != n || noted != n {
		t.Errorf("written %d, in the log %d, noted %d, want %d (errors %v, %v)", written, last, noted, n, err, lastErr)
	}
}

// TestGivesUp: after so many lost answers the cycle ends, and the next batch is not begun.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		for range attempts {
			log.LoseNextAnswer(eventlog.Decisions)
		}
		noted := 0
		executor := room(log, func(decide.Eviction) { noted++ })
		written, err := executor.RequestEvictions(t.Context(), evictions(eventlog.MaxBatch+1))
		if !errors.Is(err, memlog.ErrAnswerLost) || written != 0 || noted != eventlog.MaxBatch {
			t.Errorf("written %d, noted %d, error %v", written, noted, err)
		}
	})
}

// TestRefusedAsk: a request that the log refuses is not repeated. The others are appended, and the cycle ends.
func TestRefusedAsk(t *testing.T) {
	log := memlog.New(memlog.Options{})
	log.RefuseAbove(1000)
	asks := evictions(3)
	asks[1].Decision.Message = strings.Repeat("x", 2000)
	written, err := room(log, func(decide.Eviction) {}).RequestEvictions(t.Context(), asks)
	if refused := new(eventlog.ErrRefused); !errors.As(err, &refused) || written != 2 {
		t.Errorf("written %d, error %v, want 2 and the refusal", written, err)
	}
	if last, err := log.Last(t.Context(), eventlog.Decisions); err != nil || last != 2 {
		t.Errorf("%d records (%v), want the two that the log takes", last, err)
	}
}

// TestRefusedAskHoldsUpNoOther: requests behind one that the log refuses are appended, or it would block them in
// every cycle.
func TestRefusedAskHoldsUpNoOther(t *testing.T) {
	log := memlog.New(memlog.Options{})
	log.RefuseAbove(1000)
	asks := evictions(3 * movesPerAsk)
	asks[1].Decision.Message = strings.Repeat("x", 2000)
	written, _, err := room(log, func(decide.Eviction) {}).CarryOut(t.Context(), nil, asks)
	if !isRefusal(err) || written != len(asks)-1 {
		t.Errorf("written %d of %d, error %v, want all but one and the refusal", written, len(asks), err)
	}
}

// TestEndsWithTheLeadership: nothing is written for a context that has ended.
func TestEndsWithTheLeadership(t *testing.T) {
	log := memlog.New(memlog.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	written, err := room(log, func(decide.Eviction) { t.Error("noted") }).RequestEvictions(ctx, evictions(1))
	if !errors.Is(err, context.Canceled) || written != 0 {
		t.Errorf("written %d, error %v", written, err)
	}
}
