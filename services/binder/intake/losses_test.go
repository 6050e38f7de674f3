package intake

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// lossyLog is a decision log with its own clock, and a binder that reads it. It must run in a bubble.
type lossyLog struct {
	*testing.T
	*memlog.Log
	// ahead is how far its clock is ahead.
	ahead time.Duration
	// wait advances the bubble's clock.
	wait func(time.Duration)
}

// add appends a decision about each pod.
func (l *lossyLog) add(uids ...string) {
	for _, uid := range uids {
		l.wait(time.Millisecond)
		m := events.EncodeDecision(events.Decision{Kind: events.DecisionUngate, Pod: events.PodRef{UID: uid}})
		if _, err := l.Append(l.Context(), eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
			l.Fatal(err)
		}
	}
}

// addFrame appends a decision about each pod, in one frame.
func (l *lossyLog) addFrame(uids ...string) {
	l.wait(time.Millisecond)
	var msgs []eventlog.Message
	for _, uid := range uids {
		msgs = append(msgs, events.EncodeDecision(events.Decision{
			Kind: events.DecisionUngate, Pod: events.PodRef{UID: uid},
		}))
	}
	if _, err := l.Append(l.Context(), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
		l.Fatal(err)
	}
}

// lose drops what is behind a sequence, once all of it has been read.
func (l *lossyLog) lose(after uint64) {
	synctest.Wait()
	l.LoseTail(eventlog.Decisions, after)
}

// checkRead starts a binder behind some decisions, and compares the pods of the decisions that it passes on.
func checkRead(t *testing.T, before, want []string, then func(l *lossyLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lossyLog{T: t, wait: func(d time.Duration) { time.Sleep(d) }}
		l.Log = memlog.New(memlog.Options{
			Frames: true, Now: func() time.Time { return time.Now().Add(l.ahead) },
		})
		defer l.Close()
		l.add(before...)
		out := make(chan effect.Input, 2*recordsKept)
		r := New("binder-0", Deps{Log: l.Log, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}}, out)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Decisions(ctx) }()
		synctest.Wait()
		then(l)
		l.wait(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		var read []string
		for len(out) > 0 {
			if in, ok := (<-out).(effect.DecisionSeen); ok {
				read = append(read, in.Decision.Pod.UID)
			}
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Errorf("what it reads (-want +got):\n%s", diff)
		}
	})
}

// TestDecisionsInThePlaceOfLostOnesAreRead: other members rely on a decision that the log stores where it has lost
// others, such as the removal of a gate; none is read twice.
func TestDecisionsInThePlaceOfLostOnesAreRead(t *testing.T) {
	checkRead(t, []string{"before"}, []string{"a", "b", "c", "d", "e", "f"}, func(l *lossyLog) {
		l.add("a", "b", "c")
		l.lose(2)
		l.add("d", "e", "f")
	})
}

// TestFramesOfDecisionsAreReadWhole: all decisions of a frame are passed on, or none, also where it has taken the place
// of another one.
func TestFramesOfDecisionsAreReadWhole(t *testing.T) {
	checkRead(t, []string{"before"}, []string{"a", "b", "c", "d", "e", "f", "g"}, func(l *lossyLog) {
		l.addFrame("a", "b")
		l.addFrame("c", "d", "e")
		l.lose(2)
		l.addFrame("f", "g")
	})
	checkRead(t, []string{"x", "y"}, []string{"a", "b", "c"}, func(l *lossyLog) {
		l.lose(1)
		l.addFrame("a", "b")
		l.add("c")
	})
}

// TestDecisionsFromBeforeTheStartAreNotReadAfterALoss: the log loses some of them before the binder has read others.
func TestDecisionsFromBeforeTheStartAreNotReadAfterALoss(t *testing.T) {
	checkRead(t, []string{"x", "y", "z"}, []string{"a", "b", "c"}, func(l *lossyLog) {
		l.lose(1)
		l.add("a", "b", "c")
	})
}

// TestDecisionsStoredByAnEarlierClockAreRead: the server that leads the stream after a loss has a clock behind that
// of the server before. Then the log loses some records again, and those that the first server has stored seem to be
// the latest.
func TestDecisionsStoredByAnEarlierClockAreRead(t *testing.T) {
	for name, until := range map[string]time.Duration{"a loss that is seen late": 0, "a loss that is seen": time.Second} {
		t.Run(name, func(t *testing.T) {
			checkRead(t, []string{"before"}, []string{"a", "b", "c", "d", "e", "f"}, func(l *lossyLog) {
				l.ahead = time.Hour
				l.add("a", "b")
				l.lose(2)
				l.ahead = 0
				l.wait(until)
				l.add("c", "d")
				l.wait(time.Second)
				l.lose(3)
				l.add("e", "f")
			})
		})
	}
}

// TestALossOfAllThatIsRemembered: the remaining records are from before it, and new ones are recognised by their
// time.
func TestALossOfAllThatIsRemembered(t *testing.T) {
	pods := make([]string, 2*recordsKept)
	for i := range pods {
		pods[i] = strconv.Itoa(i)
	}
	want := append(slices.Clone(pods[recordsKept:]), "a", "b", "c")
	checkRead(t, pods[:recordsKept], want, func(l *lossyLog) {
		l.add(pods[recordsKept:]...)
		l.lose(recordsKept / 2)
		l.add("a", "b")
		l.wait(time.Second)
		l.add("c")
	})
}

// TestDecisionsAreRememberedBehindWhatRetentionTook: at the start, and later.
func TestDecisionsAreRememberedBehindWhatRetentionTook(t *testing.T) {
	checkRead(t, []string{"x", "y", "z"}, []string{"a", "b", "c"}, func(l *lossyLog) {
		l.Trim(eventlog.Decisions, 3)
		l.lose(3)
		l.add("a", "b")
		l.lose(4)
		l.add("c")
	})
}
