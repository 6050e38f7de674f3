package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// beginResetEpoch opens an epoch which declares that nothing before it counts.
func beginResetEpoch(h *statetest.History) {
	h.BeginEpoch()
	last := &h.Facts[len(h.Facts)-1]
	last.Progress = last.Epoch
}

// TestFactsPublishedAgain has these steps:
//
//  1. Retention has truncated the log up to the newest snapshot, which is at 6.
//  2. The log loses 5 and 6. A new reader has nowhere to begin. A reader that has read up to 4 has correct
//     content, but cannot know on what the next epoch builds.
//  3. The facts are published again from scratch at 5. Pod "b" was deleted in between, which no fact reports.
//  4. New readers and existing readers see what has been published since, and nothing else.
func TestFactsPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{ReadBatch: 2})
		h := statetest.History{Epoch: 1}
		pods(&h, "a", "b")
		write(t, log, h.Facts...)
		early := start(log)
		defer early.stop()
		synctest.Wait()
		early.sees(t, h.Facts)
		lost := h
		pods(&lost, "lost")
		write(t, log, lost.Facts[4:]...)
		snapshot(t, log, lost.Facts)
		log.Trim(eventlog.Facts, 4)
		log.LoseTail(eventlog.Facts, 4)
		late := start(log)
		defer late.stop()
		time.Sleep(settle)
		late.mu.Lock()
		if late.mu.resets != 0 {
			t.Error("a reset without anything to reset to")
		}
		late.mu.Unlock()

		beginResetEpoch(&h)
		pods(&h, "a", "c")
		h.EndEpoch()
		write(t, log, h.Facts[4:]...)
		time.Sleep(settle)
		early.sees(t, h.Facts[4:])
		late.sees(t, h.Facts[4:])

		// A snapshot of it works like any other.
		published := len(h.Facts)
		snapshot(t, log, h.Facts[4:])
		pods(&h, "d")
		write(t, log, h.Facts[published:]...)
		log.Trim(eventlog.Facts, uint64(published)+1)
		later := start(log)
		defer later.stop()
		time.Sleep(settle)
		for _, m := range []*member{early, late, later} {
			m.sees(t, h.Facts[4:])
		}
	})
}

// TestFactsPublishedAgainTwice: the second start from scratch counts, also when the log has lost the first.
func TestFactsPublishedAgainTwice(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := memlog.New(memlog.Options{})
			h := statetest.History{Epoch: 1}
			pods(&h, "a")
			write(t, log, h.Facts...)
			log.Trim(eventlog.Facts, 2)
			beginResetEpoch(&h)
			pods(&h, "b")
			h.EndEpoch()
			write(t, log, h.Facts[2:]...)
			m := start(log)
			defer m.stop()
			time.Sleep(settle)
			m.sees(t, h.Facts[2:])
			from := len(h.Facts)
			if lost {
				from = 2
				log.LoseTail(eventlog.Facts, 2)
				h.Facts = h.Facts[:2]
			}
			beginResetEpoch(&h)
			pods(&h, "c")
			h.EndEpoch()
			write(t, log, h.Facts[from:]...)
			time.Sleep(settle)
			m.sees(t, h.Facts[from:])
		})
	}
}
