package memlog_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) { eventstest.Run(t, targets(memlog.Options{})) }

func TestContractOfFrames(t *testing.T) {
	eventstest.RunFrames(t, targets(memlog.Options{Frames: true, ReadBatch: 10}))
}

func targets(options memlog.Options) func(t *testing.T) eventstest.Target {
	return func(t *testing.T) eventstest.Target {
		l := memlog.New(options)
		t.Cleanup(l.Close)
		return eventstest.Target{
			Log: l, Snapshots: l, Bus: l, Close: l.Close,
			Trim: func(_ *testing.T, s eventlog.Stream, first uint64) { l.Trim(s, first) },
			Checkpoint: func(t *testing.T) func() {
				at := map[eventlog.Stream]uint64{}
				for _, s := range eventlog.Streams() {
					last, err := l.Last(t.Context(), s)
					if err != nil {
						t.Fatal(err)
					}
					at[s] = last
				}
				return func() {
					for s, last := range at {
						l.LoseTail(s, last)
					}
				}
			},
		}
	}
}

func BenchmarkLog(b *testing.B) {
	eventstest.Bench(b, func(*testing.B) eventlog.Log { return memlog.New(memlog.Options{Keep: 100_000}) })
}

func facts(n int) []eventlog.Message {
	msgs := make([]eventlog.Message, n)
	for i := range msgs {
		msgs[i] = events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpProgress, Progress: uint64(i)})
	}
	return msgs
}

func TestKeep(t *testing.T) {
	l := memlog.New(memlog.Options{Keep: 5, ReadBatch: 2})
	append3 := func() {
		t.Helper()
		if _, err := l.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, facts(3)); err != nil {
			t.Fatal(err)
		}
	}
	append3()
	r, err := l.Read(t.Context(), eventlog.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	if records, err := r.Next(t.Context()); err != nil || len(records) != 2 || records[1].Sequence != 2 {
		t.Fatalf("first batch: %v, %v", records, err)
	}
	append3() // sequences 2 to 6 are left, the reader wants 3
	if records, err := r.Next(t.Context()); err != nil || records[0].Sequence != 3 {
		t.Fatalf("second batch: %v, %v", records, err)
	}
	append3() // 5 to 9 are left, the reader wants 5
	append3() // 8 to 12 are left
	var gap *eventlog.ErrGap
	want := eventlog.ErrGap{Stream: eventlog.Facts, Want: 5, Have: 8}
	if _, err := r.Next(t.Context()); !errors.As(err, &gap) || *gap != want {
		t.Fatalf("overrun reader: %v", err)
	}
	if _, err := l.Read(t.Context(), eventlog.Facts, 7); !errors.As(err, &gap) {
		t.Fatalf("reader of what is gone: %v", err)
	}
}

func TestLoseNextAnswer(t *testing.T) {
	l := memlog.New(memlog.Options{})
	l.LoseNextAnswer(eventlog.Facts)
	_, err := l.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 1}, facts(2))
	if errors.Is(err, memlog.ErrAnswerLost) {
		t.Fatalf("a refused append lost its answer: %v", err)
	}
	if _, err := l.Append(t.Context(), eventlog.Facts, eventlog.Tail{}, facts(2)); !errors.Is(err, memlog.ErrAnswerLost) {
		t.Fatalf("append: %v, want %v", err, memlog.ErrAnswerLost)
	}
	if last, err := l.Last(t.Context(), eventlog.Facts); err != nil || last != 2 {
		t.Fatalf("last %d, %v: the messages must be stored", last, err)
	}
	if last, err := l.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: 2}, facts(1)); err != nil || last != 3 {
		t.Fatalf("next append: %d, %v", last, err)
	}
}

// TestStoredCopy: neither a writer nor the caller that put a snapshot can change what is stored.
func TestStoredCopy(t *testing.T) {
	l := memlog.New(memlog.Options{})
	m := eventlog.Message{Subject: "facts.pod.a", Header: eventlog.Header{{Key: "uid", Value: "a"}}, Data: []byte("data")}
	if _, err := l.Append(t.Context(), eventlog.Facts, eventlog.Tail{}, []eventlog.Message{m}); err != nil {
		t.Fatal(err)
	}
	m.Header[0].Value, m.Data[0] = "b", 'D'
	r, err := l.Read(t.Context(), eventlog.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(t.Context())
	if err != nil || records[0].Header.Get("uid") != "a" || string(records[0].Data) != "data" {
		t.Fatalf("stored record changed: %v, %v", records, err)
	}
}

func TestBusOverflow(t *testing.T) {
	l := memlog.New(memlog.Options{BusBuffer: 3})
	var handled []string
	_, err := l.Subscribe("a", func(data []byte) {
		handled = append(handled, string(data))
		if string(data) != "start" {
			return
		}
		for _, text := range []string{"1", "2", "3", "lost", "lost"} {
			if err := l.Publish("a", []byte(text)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Publish("a", []byte("start")); err != nil {
		t.Fatal(err)
	}
	if got, want := len(handled), 4; got != want || l.Dropped() != 2 {
		t.Fatalf("handled %v, dropped %d", handled, l.Dropped())
	}
}
