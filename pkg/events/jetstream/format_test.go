package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// pods returns facts about pods.
func pods(names ...string) (msgs []eventlog.Message) {
	for _, name := range names {
		msgs = append(msgs, events.EncodeFact(events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: name, Name: name, Epoch: 5, Object: []byte("of " + name),
		}))
	}
	return msgs
}

// names returns the names of the pods that all facts from a sequence on are about, in order; "?" for what is none.
func names(t *testing.T, l *jetstream.Log, from uint64) (list []string) {
	t.Helper()
	last, err := l.Last(t.Context(), eventlog.Facts)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Read(t.Context(), eventlog.Facts, from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for at := from - 1; at < last; {
		records, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			at = record.Sequence
			fact, err := events.DecodeFact(record)
			if err != nil {
				fact.Name = "?"
			}
			list = append(list, fact.Name)
		}
	}
	return list
}

// TestStreamIsSwitched: a stream keeps its format until it is switched, and then until it is switched back. A fence
// holds across that, and readers and queries find both.
func TestStreamIsSwitched(t *testing.T) {
	n := newServer(t, nil)
	cfg := jetstream.Config{URLs: []string{n.url()}, Logger: quiet, MinFrame: 1}
	records, frames := cfg, cfg
	records.Format, frames.Format = jetstream.FormatRecords, jetstream.FormatFrames
	var tail eventlog.Tail
	var want []string
	write := func(l *jetstream.Log, names ...string) {
		t.Helper()
		msgs := pods(names...)
		last, err := l.Append(t.Context(), eventlog.Facts, tail, msgs)
		if err != nil {
			t.Fatal(err)
		}
		tail, want = frame.Tail(l.Frames(eventlog.Facts), last, msgs), append(want, names...)
	}
	first := open(t, records)
	write(first, "a", "b", "c")
	if l := open(t, cfg); l.Frames(eventlog.Facts)+l.Frames(eventlog.Decisions) > 0 {
		t.Fatal("a stream that exists has been switched by opening it")
	}
	second := open(t, frames)
	write(first, "d") // goes on as it has begun
	write(second, "a", "e")
	write(open(t, cfg), "f", "g")
	third := open(t, records)
	write(third, "a", "h")
	if tail.Sequence != 8 {
		t.Errorf("the log ends at %d, want 8: two frames among six records", tail.Sequence)
	}
	for _, l := range []*jetstream.Log{first, second, third} {
		if got := names(t, l, 1); !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
		found, err := l.About(t.Context(), eventlog.Facts, events.FactsAbout(events.KindPod, "a"), 0)
		if err != nil || len(found) != 3 || found[1].Sequence != 5 || found[2].Sequence != 7 {
			t.Errorf("about a: %v, %v", found, err)
		}
	}
}

// TestFewRecordsAreFramesOfOne: a frame of several takes memory of the server for as long as it is kept, so few records
// are stored one by one.
func TestFewRecordsAreFramesOfOne(t *testing.T) {
	n := newServer(t, nil)
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
	if least := l.Frames(eventlog.Facts); least != frame.MinRecords || l.Frames(eventlog.Ledger) != 0 {
		t.Fatalf("frames of %d records and more, and of %d in the ledger's history", least, l.Frames(eventlog.Ledger))
	}
	var many []string
	for i := range frame.MinRecords {
		many = append(many, fmt.Sprint("pod-", i))
	}
	for _, c := range []struct {
		names []string
		last  uint64
	}{{many[1:], frame.MinRecords - 1}, {many, frame.MinRecords}, {many[:1], frame.MinRecords + 1}} {
		last, err := l.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, pods(c.names...))
		if err != nil || last != c.last {
			t.Fatalf("an append of %d records ends at %d, %v, want %d", len(c.names), last, err, c.last)
		}
	}
	want := slices.Concat(many[1:], many, many[:1])
	if got := names(t, l, 1); !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

// TestFormatOfALaterVersion: a stream whose format is not known is not opened.
func TestFormatOfALaterVersion(t *testing.T) {
	n := newServer(t, nil)
	cfg := jetstream.Config{URLs: []string{n.url()}, Logger: quiet, MinFrame: 1}
	open(t, cfg)
	stream, err := raw(t, n).Stream(t.Context(), string(eventlog.Decisions))
	if err != nil {
		t.Fatal(err)
	}
	later := stream.CachedInfo().Config
	later.Metadata["berth.format"] = "columns"
	if _, err := raw(t, n).UpdateStream(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	_, err = jetstream.Open(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), `stream DECISIONS: its format is "columns"`) {
		t.Errorf("got %v, want an error about the format", err)
	}
}

// TestBrokenFrames: what is not a frame although it says so is one record that cannot be decoded, and so is each record
// of a frame that cannot be. The records next to it are read.
func TestBrokenFrames(t *testing.T) {
	n := newServer(t, nil)
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
	js := raw(t, n)
	good := frame.Encode(pods("a", "b", "c"), 0)
	torn := slices.Clone(good)
	torn[bytes.Index(torn, []byte("of b"))-1] = 0xff // the length of the data
	subject := frame.Subject(pods("a", "b", "c"))
	put := func(version string, data []byte) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
		m.Header[frame.HeaderFrame] = []string{version}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	put("1", good)
	put("2", good)
	put("1", []byte("poison"))
	put("1", nil)
	put("1", good[:len(good)-1])
	put("1", frame.Encode(pods("a", "b"), 6))
	put("1", frame.Encode(pods("a", "b"), 6)) // at 7
	put("1", torn)
	want := []string{"a", "b", "c", "?", "?", "?", "?", "a", "b", "?", "a", "?", "c"}
	if got := names(t, l, 1); !slices.Equal(got, want) {
		t.Fatalf("read %v, want %v", got, want)
	}
}

// TestSearchAmongManyFrames: the server answers with 100,000 subjects at most at once. A search among more finds its
// frame at the first and at the last page, also while others are written.
func TestSearchAmongManyFrames(t *testing.T) {
	n := newServer(t, nil)
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, MinFrame: 1})
	const frames, unanswered = 103_000, 2000
	js := raw(t, n)
	subject := func(i int) string { return fmt.Sprintf("facts.pod.many%06d.0", i) }
	for i := range frames {
		if _, err := js.PublishAsync(subject(2*i), nil); err != nil {
			t.Fatal(err)
		}
		if i%unanswered == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	if _, err := l.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, pods("a", "b")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			if _, err := js.Publish(ctx, subject(2*i+1), nil); err != nil {
				written <- err
				return
			}
		}
	}()
	found, err := l.About(t.Context(), eventlog.Facts, events.FactsAbout(events.KindPod, "a"), 0)
	cancel()
	if err != nil || len(found) != 1 || found[0].Sequence < frames {
		t.Errorf("found %v, %v", found, err)
	}
	if err := <-written; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
