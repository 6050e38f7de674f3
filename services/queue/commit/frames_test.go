package commit

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

// framing is a writer on a log with frames, driven by the test.
type framing struct {
	*testing.T
	log *flaky
	*Writer
}

func newFraming(t *testing.T) *framing {
	t.Helper()
	f := &framing{T: t, log: &flaky{Log: memlog.New(memlog.Options{Frames: true})}}
	f.Writer = f.writer(Base{}, 4)
	if err := f.Open(t.Context(), "list"); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *framing) writer(base Base, epoch uint64) *Writer {
	return NewWriter(f.log, slog.New(slog.DiscardHandler), clock.RealClock{}, base, epoch)
}

// store stores facts that are waiting together.
func (f *framing) store(w *Writer, names ...string) error {
	facts := make(chan events.Fact, len(names))
	for _, name := range names {
		facts <- upsert(name)
	}
	return w.Store(f.Context(), facts)
}

// wantFrames compares the log with frames, each a list of the names in it.
func (f *framing) wantFrames(want ...[]string) {
	f.Helper()
	r, err := f.log.Read(f.Context(), eventlog.Facts, 1)
	if err != nil {
		f.Fatal(err)
	}
	defer r.Close()
	records, err := r.Next(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	got := make([][]string, len(want))
	for _, record := range records {
		fact, err := events.DecodeFact(record)
		if err != nil {
			f.Fatal(err)
		}
		if int(record.Sequence) > len(want) {
			f.Fatalf("the log ends at %d or later, want %d", record.Sequence, len(want))
		}
		got[record.Sequence-1] = append(got[record.Sequence-1], fact.Name)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("the log has %q, want %q", got, want)
	}
}

// Facts that are waiting together are one frame, whatever their number, and the next one is appended behind it.
func TestWaitingFactsAreOneFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		for _, names := range [][]string{{"a", "b"}, {"c"}, {"d", "e", "f", "g", "h", "i", "j"}} {
			if err := f.store(f.Writer, names...); err != nil {
				t.Fatal(err)
			}
		}
		f.wantFrames([]string{""}, []string{"a", "b"}, []string{"c"}, []string{"d", "e", "f", "g", "h", "i", "j"})
	})
}

// Facts that are too large for one frame are several appends, of which each may go unanswered.
func TestLargeFactsAreSeveralFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		facts := make(chan events.Fact, 5)
		for i := range 5 {
			large := upsert(fmt.Sprint(i))
			large.Object = make([]byte, 100<<10)
			facts <- large
		}
		f.log.LoseNextAnswer(eventlog.Facts)
		f.log.LoseNextAnswer(eventlog.Facts)
		if err := f.Store(t.Context(), facts); err != nil {
			t.Fatal(err)
		}
		f.wantFrames([]string{""}, []string{"0", "1"}, []string{"2", "3"}, []string{"4"})
	})
}

// A frame whose answer was lost is found, and is not appended again; one that was lost itself is.
func TestFramesWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		f.log.LoseNextAnswer(eventlog.Facts)
		if err := f.store(f.Writer, "a", "b", "c"); err != nil {
			t.Fatal(err)
		}
		f.log.appends, f.log.lasts = 2, 1
		if err := f.store(f.Writer, "d", "e"); err != nil {
			t.Fatal(err)
		}
		f.wantFrames([]string{""}, []string{"a", "b", "c"}, []string{"d", "e"})
	})
}

// A frame in whose place the log has other records does not count as stored, however many records these are.
func TestAFrameInWhosePlaceIsAnother(t *testing.T) {
	for name, others := range map[string][]string{
		"fewer": {"a"}, "as many": {"a", "x"}, "more": {"a", "b", "c"}, "none of them": {"x", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFraming(t)
				var msgs []eventlog.Message
				for _, name := range others {
					msgs = append(msgs, f.encode(upsert(name)))
				}
				f.log.appends = 1
				if _, err := f.log.Log.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 1}, msgs); err != nil {
					t.Fatal(err)
				}
				err := f.store(f.Writer, "a", "b")
				var diverged *DivergedError
				if !errors.As(err, &diverged) {
					t.Fatalf("got %v, want that the log has diverged", err)
				}
			})
		})
	}
}

// A writer knows its own last frame from one of another epoch that has taken its place.
func TestALostFrameEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		if err := f.store(f.Writer, "a", "b"); err != nil {
			t.Fatal(err)
		}
		f.log.LoseTail(eventlog.Facts, 1)
		base, err := Behind(t.Context(), f.log, state.Position{Sequence: 1, Epoch: 4})
		if err != nil {
			t.Fatal(err)
		}
		other := f.writer(base, 5)
		if err := f.store(other, "c", "d", "e"); err != nil {
			t.Fatal(err)
		}
		var diverged *DivergedError
		if err := f.store(f.Writer, "f"); !errors.As(err, &diverged) {
			t.Fatalf("the writer of before: %v, want that the log has diverged", err)
		}
		f.wantFrames([]string{""}, []string{"c", "d", "e"})
	})
}

// A round continues behind a frame, which must be of the epoch that the state has.
func TestARoundBehindAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		if err := f.store(f.Writer, "a", "b"); err != nil {
			t.Fatal(err)
		}
		at := state.Position{Sequence: 2, Epoch: 4}
		if err := Stands(t.Context(), f.log, at); err != nil {
			t.Error(err)
		}
		base, err := Behind(t.Context(), f.log, at)
		if err != nil || base.Tail != f.last || base.Epoch != 4 {
			t.Fatalf("got %+v, %v, want the tail %+v", base, err, f.last)
		}
		next := f.writer(base, 9)
		if err := next.Open(t.Context(), "list"); err != nil {
			t.Fatal(err)
		}
		if err := f.store(next, slices.Repeat([]string{"c"}, 3)...); err != nil {
			t.Fatal(err)
		}
		f.wantFrames([]string{""}, []string{"a", "b"}, []string{""}, []string{"c", "c", "c"})
	})
}

// A frame at the end of which one record is no fact is not a place to continue, except anew.
func TestAFrameWithARecordThatIsNoFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFraming(t)
		poison := f.encode(upsert("b"))
		poison.Header.Set(eventlog.HeaderSchema, "99")
		msgs := []eventlog.Message{f.encode(upsert("a")), poison, f.encode(upsert("c"))}
		if _, err := f.log.Log.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 1}, msgs); err != nil {
			t.Fatal(err)
		}
		var undecodable *events.DecodeError
		if _, err := Behind(t.Context(), f.log, state.Position{Sequence: 2, Epoch: 4}); !errors.As(err, &undecodable) {
			t.Errorf("got %v, want that a record cannot be decoded", err)
		}
		base, err := Anew(t.Context(), f.log)
		if err != nil {
			t.Fatal(err)
		}
		next := f.writer(base, 9)
		if err := next.Open(t.Context(), "anew"); err != nil {
			t.Errorf("a round anew behind it: %v", err)
		}
	})
}

// A frame that is too large for a message of the log is stored as single records. The writer goes on behind them.
func TestAFrameThatIsStoredAsSingleRecords(t *testing.T) {
	log := eventstest.OneByOne(memlog.New(memlog.Options{Frames: true}))
	w := NewWriter(log, slog.New(slog.DiscardHandler), clock.RealClock{}, Base{}, 4)
	if err := w.Open(t.Context(), "list"); err != nil {
		t.Fatal(err)
	}
	f := framing{T: t}
	for _, names := range [][]string{{"a", "b", "c"}, {"d", "e"}} {
		if err := f.store(w, names...); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := log.Last(t.Context(), eventlog.Facts); err != nil || last != 6 {
		t.Errorf("the log ends at %d, %v, want 6", last, err)
	}
}
