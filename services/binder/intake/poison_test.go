package intake

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// following is a running reader, and its latest output.
type following struct {
	facts effect.FactsChanged
	seen  []string
	stop  func()
}

// reading starts a reader in the bubble of a test.
func reading(t *testing.T, log *memlog.Log) *following {
	ctx, cancel := context.WithCancel(context.Background())
	out, ended := make(chan effect.Input), make(chan error, 2)
	r := New("binder-0", Deps{
		Log: log, Facts: feed.New(log, log), Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
	}, out)
	go func() { ended <- r.Facts(ctx) }()
	go func() { ended <- r.Decisions(ctx) }()
	f, taken := &following{}, make(chan struct{})
	go func() {
		defer close(taken)
		for in := range out {
			switch in := in.(type) {
			case effect.FactsChanged:
				f.facts = in
			case effect.DecisionSeen:
				f.seen = append(f.seen, in.Decision.Pod.UID)
			}
		}
	}()
	f.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("the reader has ended: %v", err)
			}
		}
		close(out)
		<-taken
	}
	return f
}

// TestWhatCannotBeRead: a binder that runs, and one that starts with an undecodable record in the log, continues with
// the decisions behind it, and with facts that are republished behind it.
func TestWhatCannotBeRead(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		t.Run(poison.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readsOn(t, poison.Message, time.Sleep) })
		})
	}
}

func readsOn(t *testing.T, poison eventlog.Message, pause func(time.Duration)) {
	log := memlog.New(memlog.Options{})
	add := func(s eventlog.Stream, msgs ...eventlog.Message) {
		if _, err := log.Append(t.Context(), s, eventlog.AnySequence, msgs); err != nil {
			t.Fatal(err)
		}
	}
	h := statetest.History{Epoch: 1}
	write := func(names ...string) {
		from := len(h.Facts)
		for _, name := range names {
			h.Upsert(events.KindPod, statetest.Pod("default", name))
		}
		h.Bookmark(events.KindPod)
		for _, f := range h.Facts[from:] {
			add(eventlog.Facts, events.EncodeFact(f.Fact))
		}
	}
	write("a")
	running := reading(t, log)
	defer running.stop()
	pause(time.Minute)
	synctest.Wait()
	if !running.facts.PodProgressKnown {
		t.Fatal("no progress")
	}
	add(eventlog.Facts, poison)
	write("b")
	for _, m := range eventstest.PoisonDecisions() {
		add(eventlog.Decisions, m)
	}
	add(eventlog.Decisions, events.EncodeDecision(events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "after"},
	}))
	started := reading(t, log)
	defer started.stop()
	pause(time.Minute)
	synctest.Wait()
	if running.facts.PodProgressKnown || started.facts.PodProgressKnown {
		t.Error("progress in spite of a fact that is missing")
	}
	if len(running.seen) != 1 || running.seen[0] != "after" {
		t.Errorf("decisions about %q, want the one that can be read", running.seen)
	}
	h.Epoch = 2
	add(eventlog.Facts, events.EncodeFact(events.Fact{Op: events.OpEpochBegin, Epoch: 2, Progress: 2}))
	add(eventlog.Facts, events.EncodeFact(events.Fact{Op: events.OpEpochEnd, Epoch: 2}))
	write("c")
	pause(2 * time.Minute)
	synctest.Wait()
	for name, f := range map[string]*following{"running": running, "started": started} {
		if !f.facts.PodProgressKnown {
			t.Errorf("%s: no progress although the facts have been told anew", name)
			continue
		}
		_, c := f.facts.Cluster.Pod("uid-c")
		_, a := f.facts.Cluster.Pod("uid-a")
		if !c || a {
			t.Errorf("%s: pod c is known: %t, pod a: %t; want what was told anew and nothing else", name, c, a)
		}
	}
}
