package queue_test

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/services/queue"
)

// A log that cannot be followed to its end does not block the queue forever. The scenario:
//
//  1. A leader stores a snapshot, and retention cuts the log up to there.
//  2. A power loss takes the facts that the snapshot stands for: no reader can begin.
//  3. Another leader waits in vain for its state, and then republishes everything.
func TestALogThatCannotBeFollowedIsPublishedAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	q, stop := w.start("queue-a")
	w.eventually("the first epoch has ended", func() bool { return w.progress() > 0 })
	kept, err := w.log.Last(ctx, eventlog.Facts)
	if err != nil {
		t.Fatal(err)
	}
	version := w.api.Set(pod("a", 0))
	w.eventually("the pod is a fact", func() bool { return w.progress() >= version })
	w.eventually("the queue has applied it", func() bool { return w.pool(q, "a") != "" })
	if err := stop(); err != nil { // with a last snapshot
		t.Fatal(err)
	}
	sequence, _, ok, err := w.log.Latest(ctx, eventlog.Facts)
	if err != nil || !ok || sequence <= kept {
		t.Fatalf("snapshot at %d, %t, %v; want one behind %d", sequence, ok, err, kept)
	}
	w.log.LoseTail(eventlog.Facts, kept)
	w.log.Trim(eventlog.Facts, kept)

	deps := w.deps()
	clock := testclock.NewFakeClock(time.Now())
	deps.Clock = clock
	w.startFor(queue.Config{ID: "queue-b", Profiles: profiles()}, deps)
	w.takePartitions()
	w.eventually("an epoch that begins anew", func() bool {
		clock.Step(time.Second)
		return w.republishedFrom(kept + 1)
	})
	w.eventually("a snapshot of it", func() bool {
		clock.Step(time.Second)
		sequence, _, _, err := w.log.Latest(ctx, eventlog.Facts)
		last, lastErr := w.log.Last(ctx, eventlog.Facts)
		return err == nil && lastErr == nil && sequence > kept && sequence <= last
	})
	if offers := w.receive(1); offers[0].Pod.Name != "a" {
		t.Errorf("offered %v, want pod a", podNames(offers))
	}
}

// republishedFrom reports whether a fact republishes everything.
func (w *world) republishedFrom(sequence uint64) bool {
	w.t.Helper()
	if last, err := w.log.Last(w.t.Context(), eventlog.Facts); err != nil || last < sequence {
		return false
	}
	reader, err := w.log.Read(w.t.Context(), eventlog.Facts, sequence)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	records, err := reader.Next(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	f, err := events.DecodeFact(records[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return f.StartsFromScratch()
}
