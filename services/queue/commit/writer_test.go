package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky makes a given number of appends fail before they reach the log, and a given number of reads of its end.
type flaky struct {
	*memlog.Log
	appends, lasts int
}

var errFlaky = errors.New("no answer")

func (f *flaky) Append(ctx context.Context, s eventlog.Stream, last eventlog.Tail, msgs []eventlog.Message) (uint64,
	error) {
	if f.appends > 0 {
		f.appends--
		return 0, errFlaky
	}
	return f.Log.Append(ctx, s, last, msgs)
}

func (f *flaky) Last(ctx context.Context, s eventlog.Stream) (uint64, error) {
	if f.lasts > 0 {
		f.lasts--
		return 0, errFlaky
	}
	return f.Log.Last(ctx, s)
}

// running is a running writer, in a synctest bubble.
type running struct {
	t     *testing.T
	log   *flaky
	facts chan events.Fact
	ended chan error
	stop  context.CancelFunc
}

func startWriter(t *testing.T, log *memlog.Log) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		t: t, log: &flaky{Log: log}, facts: make(chan events.Fact, 10), ended: make(chan error, 1), stop: cancel,
	}
	base, err := Anew(ctx, log)
	if err != nil {
		t.Fatal(err)
	}
	base.Anew, base.Epoch = false, 3
	w := NewWriter(r.log, slog.New(slog.DiscardHandler), clock.RealClock{}, base, 4)
	go func() { r.ended <- w.Run(ctx, "list", r.facts) }()
	synctest.Wait()
	return r
}

func upsert(name string) events.Fact {
	return events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: name, Name: name, Object: []byte(name)}
}

func (r *running) send(names ...string) {
	for _, n := range names {
		r.facts <- upsert(n)
	}
	synctest.Wait()
}

// stored lists the content of the log.
func stored(t *testing.T, log eventlog.Log) []string {
	t.Helper()
	last, err := log.Last(t.Context(), eventlog.Facts)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := log.Read(t.Context(), eventlog.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var out []string
	for at := uint64(0); at < last; {
		records, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			f, err := events.DecodeFact(r)
			if err != nil {
				t.Fatal(err)
			}
			out, at = append(out, fmt.Sprintf("%s %s %d", f.Op, f.Name, f.Epoch)), f.Sequence
		}
	}
	return out
}

func (r *running) wantStored(want ...string) {
	r.t.Helper()
	got := stored(r.t, r.log.Log)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("the log holds %q, want %q", got, want)
	}
}

func (r *running) wantEnd(diverged bool) {
	r.t.Helper()
	r.stop()
	err := <-r.ended
	var d *DivergedError
	if errors.As(err, &d) != diverged || (!diverged && err != nil) {
		r.t.Fatalf("the writer ended with %v", err)
	}
}

func TestTheWriterOpensItsEpochAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startWriter(t, memlog.New(memlog.Options{}))
		r.send("a", "b")
		r.send("c")
		r.wantStored("epoch-begin  4", "upsert a 4", "upsert b 4", "upsert c 4")
		r.wantEnd(false)
	})
}

func TestAnUnansweredAppendIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startWriter(t, memlog.New(memlog.Options{}))
		r.log.LoseNextAnswer(eventlog.Facts) // it was stored
		r.send("a", "b")
		r.log.appends, r.log.lasts = 3, 2 // it was not, and the log does not answer for a while
		r.facts <- upsert("c")
		for len(stored(t, r.log.Log)) < 4 {
			synctest.Wait()
			sleepFake(t)
		}
		r.wantStored("epoch-begin  4", "upsert a 4", "upsert b 4", "upsert c 4")
		r.wantEnd(false)
	})
}

// sleepFake lets the bubble's clock advance.
func sleepFake(t *testing.T) {
	t.Helper()
	if err := sleep(t.Context(), clock.RealClock{}, unknownBackoff.Cap); err != nil {
		t.Fatal(err)
	}
}

// A fact that the log refuses ends the writer at once: the same batch would always be refused.
func TestARefusedFactEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startWriter(t, memlog.New(memlog.Options{}))
		r.send("a")
		large := upsert("large")
		large.Object = make([]byte, eventlog.MaxMessage+1)
		r.facts <- large
		err := <-r.ended
		if refused := new(eventlog.ErrRefused); !errors.As(err, &refused) {
			t.Errorf("the writer ended with %v, want the refusal", err)
		}
		r.wantStored("epoch-begin  4", "upsert a 4")
		r.stop()
	})
}

// Facts that are large in total are appended in batches of a bounded size.
func TestBatchesOfFactsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &counting{Log: memlog.New(memlog.Options{})}
		facts := make(chan events.Fact, eventlog.MaxBatch)
		for i := range 40 {
			f := upsert(fmt.Sprint("pod-", i))
			f.Object = make([]byte, eventlog.MaxObject)
			facts <- f
		}
		w := NewWriter(log, slog.New(slog.DiscardHandler), clock.RealClock{}, Base{}, 4)
		if err := w.Open(t.Context(), "list"); err != nil {
			t.Fatal(err)
		}
		for len(facts) > 0 {
			if err := w.Store(t.Context(), facts); err != nil {
				t.Fatal(err)
			}
		}
		if log.largest > eventlog.BatchBytes+eventlog.MaxMessage || log.largest < eventlog.BatchBytes {
			t.Errorf("the largest batch has %d bytes, want about %d", log.largest, eventlog.BatchBytes)
		}
	})
}

// counting records the size of the largest append.
type counting struct {
	*memlog.Log
	largest int
}

func (c *counting) Append(
	ctx context.Context, s eventlog.Stream, last eventlog.Tail, msgs []eventlog.Message,
) (uint64, error) {
	size := 0
	for i := range msgs {
		size += len(msgs[i].Data)
	}
	c.largest = max(c.largest, size)
	return c.Log.Append(ctx, s, last, msgs)
}

func TestADeposedWriterWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		old := startWriter(t, log)
		old.send("a")
		successor := startWriter(t, log)
		successor.send("b")
		old.send("late")
		old.wantEnd(true)
		successor.send("c")
		successor.wantStored("epoch-begin  4", "upsert a 4", "epoch-begin  4", "upsert b 4", "upsert c 4")
		successor.wantEnd(false)
	})
}

func TestALostTailEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startWriter(t, memlog.New(memlog.Options{}))
		r.send("a", "b")
		r.log.LoseTail(eventlog.Facts, 2)
		r.send("c")
		r.wantStored("epoch-begin  4", "upsert a 4")
		r.wantEnd(true)
	})
}

// A batch whose answer was lost, and whose place another writer has taken since the tail with it was lost, does not
// count as stored.
func TestAnUnansweredAppendOverwrittenByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		r := startWriter(t, log)
		r.log.appends, r.log.lasts = 1, 1
		r.facts <- upsert("a")
		synctest.Wait()
		other := []eventlog.Message{events.EncodeFact(upsert("other"))}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 1}, other); err != nil {
			t.Fatal(err)
		}
		sleepFake(t)
		synctest.Wait()
		r.wantEnd(true)
		r.wantStored("epoch-begin  4", "upsert other 0")
	})
}

func TestALostTailThatHasGrownAgainIsFound(t *testing.T) {
	log := memlog.New(memlog.Options{})
	write := func(epoch uint64, n int) {
		t.Helper()
		for range n {
			m := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: 1, Epoch: epoch})
			if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var diverged *DivergedError
	write(1, 5)
	p := state.Position{Sequence: 5, Epoch: 1}
	if err := Stands(t.Context(), log, p); err != nil {
		t.Fatalf("nothing is lost: %v", err)
	}
	log.LoseTail(eventlog.Facts, 3)
	if err := Stands(t.Context(), log, p); !errors.As(err, &diverged) {
		t.Fatalf("the tail is lost: %v, want *DivergedError", err)
	}
	write(2, 4)
	if err := Stands(t.Context(), log, p); !errors.As(err, &diverged) {
		t.Fatalf("the tail is lost and the log has grown: %v, want *DivergedError", err)
	}
}

// A log that has lost its tail and was filled to the same length by another writer is not this writer's log, although
// it ends at the expected sequence.
func TestAnotherWritersLogOfTheSameLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		old := startWriter(t, log)
		old.send("a", "b") // ends at 3
		log.LoseTail(eventlog.Facts, 1)
		other := upsert("other")
		other.Epoch = 9
		msgs := []eventlog.Message{events.EncodeFact(other), events.EncodeFact(other)}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 1}, msgs); err != nil {
			t.Fatal(err)
		}
		old.send("c")
		old.wantEnd(true)
		old.wantStored("epoch-begin  4", "upsert other 9", "upsert other 9")
	})
}

func TestBehind(t *testing.T) {
	ctx := t.Context()
	log := memlog.New(memlog.Options{})
	var diverged *DivergedError
	refused := func(p state.Position) {
		t.Helper()
		if b, err := Behind(ctx, log, p); !errors.As(err, &diverged) {
			t.Errorf("behind %v: %+v, %v; want *DivergedError", p, b, err)
		}
	}
	if b, err := Behind(ctx, log, state.Position{}); err != nil || b != (Base{}) {
		t.Errorf("behind nothing: %+v, %v", b, err)
	}
	refused(state.Position{Sequence: 1, Epoch: 1})
	f := upsert("a")
	f.Epoch = 2
	msgs := []eventlog.Message{events.EncodeFact(f), events.EncodeFact(f)}
	if _, err := log.Append(ctx, eventlog.Facts, eventlog.AnySequence, msgs); err != nil {
		t.Fatal(err)
	}
	want := Base{Tail: eventlog.Tail{Sequence: 2, Subject: msgs[1].Subject}, Epoch: 2}
	if b, err := Behind(ctx, log, state.Position{Sequence: 2, Epoch: 2}); err != nil || b != want {
		t.Errorf("behind the end: %+v, %v; want %+v", b, err, want)
	}
	refused(state.Position{})
	refused(state.Position{Sequence: 1, Epoch: 2})
	refused(state.Position{Sequence: 3, Epoch: 2})
	refused(state.Position{Sequence: 2, Epoch: 1}) // another history of the same length
	want.Anew = true
	if b, err := Anew(ctx, log); err != nil || b != want {
		t.Errorf("anew: %+v, %v; want %+v", b, err, want)
	}
	log.Trim(eventlog.Facts, 3)
	refused(state.Position{Sequence: 2, Epoch: 2}) // it cannot be determined any more
	want = Base{Tail: eventlog.Tail{Sequence: 2}, Anew: true}
	if b, err := Anew(ctx, log); err != nil || b != want {
		t.Errorf("anew behind what retention has taken: %+v, %v; want %+v", b, err, want)
	}
}
