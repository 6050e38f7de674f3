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
)

// reading starts a room; stop ends it and fails the test if it had ended before.
func reading(t *testing.T, log *memlog.Log) (r *Reader, stop func()) {
	r = New(Deps{Log: log, Facts: feed.New(log, log), Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
		OnOutcome: func(string, events.Decision) {}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	go func() { ended <- r.Follow(ctx) }()
	go func() { ended <- r.Apply(ctx) }()
	go func() { ended <- r.Decisions(ctx) }()
	return r, func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("the room has ended: %v", err)
			}
		}
	}
}

// TestWhatCannotBeRead: a descheduler that runs, and one that starts with an undecodable record in the log, continues
// with the decisions behind it, and with facts that are republished behind it.
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
	write := func(name string) {
		from := len(h.Facts)
		h.Upsert(events.KindPod, statetest.Pod("default", name))
		h.Bookmark(events.KindPod)
		for _, f := range h.Facts[from:] {
			add(eventlog.Facts, events.EncodeFact(f.Fact))
		}
	}
	pods := []events.Kind{events.KindPod}
	write("a")
	running, stop := reading(t, log)
	defer stop()
	pause(time.Minute)
	if err := running.Ready(pods); err != nil {
		t.Fatal(err)
	}
	add(eventlog.Facts, poison)
	write("b")
	add(eventlog.Decisions, ask("before"))
	for _, m := range eventstest.PoisonDecisions() {
		add(eventlog.Decisions, m)
	}
	add(eventlog.Decisions, ask("after"))
	last, err := log.Last(t.Context(), eventlog.Decisions)
	if err != nil {
		t.Fatal(err)
	}
	started, stopStarted := reading(t, log)
	defer stopStarted()
	pause(time.Minute)
	for _, r := range []*Reader{running, started} {
		if r.Ready(pods) == nil {
			t.Error("ready in spite of a fact that is missing")
		}
	}
	h.Epoch = 2
	add(eventlog.Facts, events.EncodeFact(events.Fact{Op: events.OpEpochBegin, Epoch: 2, Progress: 2}))
	add(eventlog.Facts, events.EncodeFact(events.Fact{Op: events.OpEpochEnd, Epoch: 2}))
	write("c")
	pause(2 * time.Minute)
	for name, r := range map[string]*Reader{"running": running, "started": started} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		view, err := r.View(ctx, Least{Kinds: pods, Decisions: last})
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, c := view.Cluster.Pod("uid-c")
		_, a := view.Cluster.Pod("uid-a")
		if !c || a {
			t.Errorf("%s: pod c is known: %t, pod a: %t; want what was told anew and nothing else", name, c, a)
		}
		if !view.History.HasRequest("before") || view.History.HasRequest("poison") || !view.History.HasRequest("after") {
			t.Errorf("%s: not the decisions that can be read: %+v", name, view.History)
		}
	}
}
