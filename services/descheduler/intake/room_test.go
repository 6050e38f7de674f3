package intake

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(uid string) eventlog.Message {
	return events.EncodeDecision(events.Decision{
		Kind: events.DecisionEvict, Attempt: 1, Pod: events.PodRef{UID: uid, Namespace: "default", Name: uid},
	})
}

// TestUnreadableDecision: it is named in the log, and later records are applied.
func TestUnreadableDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, output := memlog.New(memlog.Options{}), &bytes.Buffer{}
		broken := ask("broken")
		broken.Data = []byte{0xff}
		msgs := []eventlog.Message{ask("first"), broken, ask("last")}
		if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.Tail{}, msgs); err != nil {
			t.Fatal(err)
		}
		r := New(Deps{
			Log: log, Facts: feed.New(log, log), Clock: clock.RealClock{}, Logger: slog.New(slog.NewTextHandler(output, nil)),
			OnOutcome: func(string, events.Decision) { t.Error("settled") },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Decisions(ctx) }()
		view, err := r.View(ctx, Least{Decisions: 3})
		if err != nil {
			t.Fatal(err)
		}
		if m := view.History; !m.HasRequest("first") || m.HasRequest("broken") || !m.HasRequest("last") {
			t.Errorf("history %+v", m)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !strings.Contains(output.String(), "sequence=2 index=0 subject="+broken.Subject) {
			t.Errorf("the log does not name it:\n%s", output)
		}
	})
}

// TestViewSaysWhatIsMissing: the error names what was waited for in vain.
func TestViewSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		r := New(Deps{Log: log, Facts: feed.New(log, log), Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.View(ctx, Least{Kinds: []events.Kind{events.KindPod}, Decisions: 0})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the facts of kind pod") {
			t.Errorf("got %v", err)
		}
		_, err = r.View(ctx, Least{Decisions: 7})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "decision 7 (at 0)") {
			t.Errorf("got %v", err)
		}
	})
}
