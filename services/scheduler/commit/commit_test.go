package commit_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/services/scheduler/commit"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// If the store refuses a transaction for its size, that is its answer, and the room continues.
func TestRefusedForItsSize(t *testing.T) {
	store := mem.New()
	store.RefuseAbove(100)
	room := commit.New(commit.Deps{Store: store, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- room.Transact(ctx) }()
	send := func(id uint64, bytes int) step.Result {
		txn := ledger.Txn{Puts: []ledger.Put{{Key: "k", Value: make([]byte, bytes)}}}
		if err := room.Do(ctx, &step.Output{Commit: &step.Commit{ID: id, Kind: "T1", Txn: txn}}); err != nil {
			t.Fatal(err)
		}
		return <-room.Results()
	}
	for id, bytes := range map[uint64]int{1: 200, 2: ledger.MaxTxnBytes + 1} {
		r := send(id, bytes)
		if r.ID != id || r.Err != nil || !strings.Contains(r.Refused, "bytes, want at most") {
			t.Errorf("%d bytes: answer %+v, want a refusal that says what is accepted", bytes, r)
		}
	}
	if r := send(3, 10); r.Err != nil || r.Refused != "" || !r.Txn.Succeeded {
		t.Errorf("after refusals: answer %+v, want success", r)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the room ended: %v", err)
	}
}

// A decision that the log refuses is left out, and those around it are written.
func TestARefusedDecisionIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		log.RefuseAbove(1000)
		room := commit.New(commit.Deps{Log: log, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- room.Publish(ctx) }()
		decision := func(uid, message string) events.Decision {
			return events.Decision{Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: uid}, Message: message}
		}
		for range 200 {
			list := []events.Decision{decision("a", "no"), decision("large", strings.Repeat("x", 2000)), decision("b", "no")}
			if err := room.Do(ctx, &step.Output{Decisions: list}); err != nil {
				t.Fatal(err)
			}
		}
		if err := room.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if last, err := log.Last(ctx, eventlog.Decisions); err != nil || last != 400 {
			t.Errorf("%d decisions are in the log (%v), want 400", last, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A pod that names thousands of resources gets the reason why it fits nowhere, and delays no other pod.
func TestALargeDecisionIsShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		room := commit.New(commit.Deps{Log: log, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- room.Publish(ctx) }()
		large := events.Decision{
			Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "large"},
			Message: strings.Repeat("x", eventlog.MaxMessage),
		}
		if err := room.Do(ctx, &step.Output{Decisions: []events.Decision{large}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if last, err := log.Last(ctx, eventlog.Decisions); err != nil || last != 1 {
			t.Errorf("%d decisions are in the log (%v), want 1", last, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The decisions of one step are all written, even if there are more than fit in one append.
func TestManyDecisionsOfOneStepAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		room := commit.New(commit.Deps{Log: log, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- room.Publish(ctx) }()
		list := make([]events.Decision, 2*eventlog.MaxBatch+1)
		for i := range list {
			list[i] = events.Decision{Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "a"}}
		}
		if err := room.Do(ctx, &step.Output{Decisions: list}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if last, err := log.Last(ctx, eventlog.Decisions); err != nil || last != uint64(len(list)) {
			t.Errorf("%d decisions are in the log (%v), want %d", last, err, len(list))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
