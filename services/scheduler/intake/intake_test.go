package intake

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

func newReader() *Reader { return New("scheduler-0", nil, nil, nil, slog.New(slog.DiscardHandler)) }

// One input holds everything that is ready, and the first batch of the ledger lets the facts be read.
func TestNextGathers(t *testing.T) {
	r := newReader()
	results, beat, asked := make(chan step.Result, 1), make(chan time.Time, 1), make(chan func(), 1)
	r.ledgerC <- replica.Batch{Reset: true}
	for range 3 {
		r.turnsC <- work.Turn{}
	}
	r.offersC <- work.OfferBatch{}
	results <- step.Result{ID: 7}
	beat <- time.Time{}
	asked <- func() {}
	got, ok := r.Next(t.Context(), true, Answers{Results: results}, Wake{Beat: beat, Asked: asked})
	in := got.Input
	if !ok || !in.Beat || got.Query == nil || len(in.Ledger) != 1 || len(in.Turns) != 3 || len(in.Offers) != 1 ||
		len(in.Results) != 1 || in.Results[0].ID != 7 {
		t.Errorf("%t, %+v, want everything that was ready", ok, got)
	}
	select {
	case <-r.listed:
	default:
		t.Error("the facts still wait for the ledger")
	}
}

// A flood on one channel neither makes an input grow without bound nor keeps out what else is ready.
func TestNextIsBoundedAndFair(t *testing.T) {
	r := newReader()
	results := make(chan step.Result, 1)
	for range turnsBuffer {
		r.turnsC <- work.Turn{}
	}
	results <- step.Result{}
	got, ok := r.Next(t.Context(), false, Answers{Results: results}, Wake{})
	if turns := len(got.Input.Turns); !ok || len(got.Input.Results) != 1 || turns < 1 || turns > gatherLimit {
		t.Errorf("%t, %d turns and %d results, want 1 to %d turns and the result",
			ok, turns, len(got.Input.Results), gatherLimit)
	}
}

// An event has at most one question, so that each is answered before a step of its own.
func TestNextTakesOneQuestion(t *testing.T) {
	r, asked := newReader(), make(chan func(), 2)
	asked <- func() {}
	asked <- func() {}
	for range 2 {
		if got, ok := r.Next(t.Context(), true, Answers{}, Wake{Asked: asked}); !ok || got.Query == nil {
			t.Fatalf("%t, %+v, want a question", ok, got)
		}
	}
}

// Without a need to wait, nothing ready is an empty input; without anything to come, the end of the context ends the
// wait, and an ended context takes nothing.
func TestNextEnds(t *testing.T) {
	r := newReader()
	if got, ok := r.Next(t.Context(), false, Answers{}, Wake{}); !ok || got.Query != nil || len(got.Input.Facts) > 0 {
		t.Errorf("%t, %+v, want an empty input", ok, got)
	}
	soon := make(chan time.Time, 1)
	soon <- time.Time{}
	if _, ok := r.Next(t.Context(), true, Answers{}, Wake{Soon: soon}); !ok {
		t.Error("woken, and without an input to step")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, ok := r.Next(ctx, true, Answers{}, Wake{}); ok {
		t.Error("an input after the end of the context")
	}
	r.turnsC <- work.Turn{}
	if _, ok := r.Next(ctx, true, Answers{}, Wake{}); ok || len(r.turnsC) != 1 {
		t.Error("an ended context has taken an event")
	}
}
