package eventstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// RunFrames checks the same contract as Run for targets whose streams have frames: that frames of one record behave as
// single records do, and what frames of several records promise in addition.
func RunFrames(t *testing.T, open func(t *testing.T) Target) {
	t.Run("one by one", func(t *testing.T) {
		run(t, func(t *testing.T) Target {
			target := open(t)
			target.Log = OneByOne(target.Log)
			return target
		}, "contending writers")
	})
	for name, test := range map[string]func(t *testing.T, target Target){
		"formats":                  testFormats,
		"order and positions":      testFrameOrder,
		"fence":                    testFrameFence,
		"several frames, fenced":   testFramesAtomic,
		"large records":            testFrameSizes,
		"kinds of decisions":       testFrameKinds,
		"whole frames":             testWholeFrames,
		"unreadable record":        testFrameUnreadable,
		"lost tail, filled again":  testFrameLost,
		"about":                    testFramesAbout,
		"contending writers":       testFrameWriters,
		"the ledger has no frames": testLedgerHasNoFrames,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// OneByOne returns a log that appends each message by itself to another one, so that each has a sequence of its own.
func OneByOne(log eventlog.Log) eventlog.Log {
	history, _ := log.(eventlog.History)
	return oneByOne{Log: log, History: history}
}

type oneByOne struct {
	eventlog.Log
	eventlog.History
}

func (l oneByOne) Append(
	ctx context.Context, s eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message,
) (last uint64, err error) {
	if err := events.CheckAppend(s, msgs); err != nil {
		return 0, err
	}
	for i := range msgs {
		if last, err = l.Log.Append(ctx, s, expect, msgs[i:i+1]); err != nil {
			return last, err
		}
		if expect != eventlog.AnySequence {
			expect = eventlog.Tail{Sequence: last}
		}
	}
	return last, nil
}

func testFormats(t *testing.T, target Target) {
	for _, s := range []eventlog.Stream{eventlog.Facts, eventlog.Decisions} {
		if target.Log.Frames(s) != 1 {
			t.Errorf("stream %s does not have frames of any number of records", s)
		}
	}
}

func testLedgerHasNoFrames(t *testing.T, target Target) {
	if target.Log.Frames(eventlog.Ledger) != 0 {
		t.Error("the ledger's history has frames")
	}
	msgs := []eventlog.Message{
		{Subject: eventlog.SubjectLedgerChanges, Data: []byte("1")},
		{Subject: eventlog.SubjectLedgerChanges, Data: []byte("2")},
	}
	mustAppend(t, target.Log, eventlog.Ledger, 0, msgs)
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Ledger, 1), 2), 1, msgs)
}

// appendFrames appends msgs behind a tail, and checks that they were stored as frames of these numbers of messages.
func appendFrames(
	t *testing.T, log eventlog.Log, expect eventlog.Tail, msgs []eventlog.Message, sizes ...int,
) []eventlog.Record {
	t.Helper()
	s := eventlog.Facts
	if strings.HasPrefix(msgs[0].Subject, eventlog.SubjectDecisions) {
		s = eventlog.Decisions
	}
	before := mustLast(t, log, s)
	last, err := log.Append(within(t), s, expect, msgs)
	if err != nil || last != before+uint64(len(sizes)) {
		t.Fatalf("append of %d messages behind %d: %d, %v, want %d frames", len(msgs), before, last, err, len(sizes))
	}
	var want []eventlog.Record
	for _, size := range sizes {
		before++
		for index := range size {
			want = append(want, eventlog.Record{Message: msgs[len(want)], Sequence: before, Index: index})
		}
	}
	if len(want) != len(msgs) {
		t.Fatalf("frames of %v for %d messages", sizes, len(msgs))
	}
	return want
}

// checkFrames checks that records are those that appendFrames has returned.
func checkFrames(t *testing.T, got, want []eventlog.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		same := g.Subject == w.Subject && g.Header.Equal(w.Header) && string(g.Data) == string(w.Data)
		if !same || g.Sequence != w.Sequence || g.Index != w.Index || g.Time.IsZero() || g.Time != got[i-w.Index].Time {
			t.Fatalf("record %d is %d.%d %s %v with %d bytes, want %d.%d %s %v with %d", i, g.Sequence, g.Index, g.Subject,
				g.Header, len(g.Data), w.Sequence, w.Index, w.Subject, w.Header, len(w.Data))
		}
	}
}

// testFrameOrder: one append is one frame, whose records are in its order; appends and frames are in theirs. Reading
// begins at any frame.
func testFrameOrder(t *testing.T, target Target) {
	want := appendFrames(t, target.Log, eventlog.AnySequence, messages(1, 1), 1)
	want = append(want, appendFrames(t, target.Log, eventlog.Tail{Sequence: 1}, messages(2, 2), 2)...)
	most := messages(4, eventlog.MaxBatch)
	sizes := append(slices.Repeat([]int{frame.MaxRecords}, eventlog.MaxBatch/frame.MaxRecords),
		eventlog.MaxBatch%frame.MaxRecords)
	want = append(want, appendFrames(t, target.Log, eventlog.Tail{Sequence: 2}, most, sizes...)...)
	want = append(want, appendFrames(t, target.Log, eventlog.AnySequence, messages(2000, 64), 64)...)
	last := want[len(want)-1].Sequence
	for _, from := range []uint64{0, 1, 2, 9, last - 1} {
		rest := slices.IndexFunc(want, func(r eventlog.Record) bool { return r.Sequence == from+1 })
		checkFrames(t, take(t, mustRead(t, target.Log, eventlog.Facts, from+1), len(want)-rest), want[rest:])
	}
	r := mustRead(t, target.Log, eventlog.Facts, last+1)
	more := appendFrames(t, target.Log, eventlog.Tail{Sequence: last}, messages(3000, 3), 3)
	checkFrames(t, take(t, r, 3), more)
}

// testFrameFence: the fence compares the last message, whose subject frame.Tail knows.
func testFrameFence(t *testing.T, target Target) {
	first := messages(1, 20)
	appendFrames(t, target.Log, eventlog.Tail{}, first, 20)
	end := frame.Tail(1, 1, first)
	for _, wrong := range []eventlog.Tail{
		{}, {Sequence: 2}, {Sequence: 20}, {Sequence: 1, Subject: first[19].Subject},
		{Sequence: 1, Subject: strings.TrimSuffix(end.Subject, ".0") + ".7"}, // another epoch
	} {
		_, err := target.Log.Append(within(t), eventlog.Facts, wrong, messages(100, 5))
		wantWrongSequence(t, err, wrong.Sequence, 1)
	}
	appendFrames(t, target.Log, end, messages(21, 1), 1)
	single := frame.Tail(1, 2, messages(21, 1))
	if want := messages(21, 1)[0].Subject; single.Subject != want {
		t.Fatalf("a frame of one record has the subject %s, want %s", single.Subject, want)
	}
	appendFrames(t, target.Log, single, messages(22, 7), 7)
	target.Trim(t, eventlog.Facts, 4)
	_, err := target.Log.Append(within(t), eventlog.Facts, frame.Tail(1, 3, messages(22, 7)), messages(100, 1))
	wantWrongSequence(t, err, 3, 3)
}

// large returns n facts of about 100 kB, of which two fit into a frame.
func large(from, n int) []eventlog.Message {
	msgs := messages(from, n)
	for i := range msgs {
		msgs[i].Data = slices.Repeat([]byte{byte('a' + i%26)}, 100<<10)
	}
	return msgs
}

// testFramesAtomic: a fenced append that needs several frames stores all of them or none.
func testFramesAtomic(t *testing.T, target Target) {
	appendFrames(t, target.Log, eventlog.Tail{}, messages(1, 3), 3)
	for _, wrong := range []uint64{0, 2, 3} {
		_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: wrong}, large(4, 5))
		wantWrongSequence(t, err, wrong, 1)
	}
	if last := mustLast(t, target.Log, eventlog.Facts); last != 1 {
		t.Fatalf("last is %d after refused appends", last)
	}
	end := frame.Tail(1, 1, messages(1, 3))
	want := appendFrames(t, target.Log, end, large(4, 5), 2, 2, 1)
	checkFrames(t, take(t, mustRead(t, target.Log, eventlog.Facts, 2), 5), want)
	appendFrames(t, target.Log, frame.Tail(1, 4, large(4, 5)), messages(9, 2), 2)
}

// testFrameSizes: every record that fits into a message is stored, whatever is appended with it.
func testFrameSizes(t *testing.T, target Target) {
	msgs := messages(1, 5)
	msgs[1].Data = make([]byte, eventlog.MaxMessage-msgs[1].Size()+len(msgs[1].Data))
	msgs[3].Data = make([]byte, frame.MaxBytes)
	if size := msgs[1].Size(); size != eventlog.MaxMessage {
		t.Fatalf("the largest message has %d bytes, want %d", size, eventlog.MaxMessage)
	}
	want := appendFrames(t, target.Log, eventlog.AnySequence, msgs, 1, 1, 1, 1, 1)
	msgs[4].Data = make([]byte, eventlog.MaxMessage)
	_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.AnySequence, msgs)
	if rest, refused := eventlog.WithoutRefused(msgs, err); !refused || len(rest) != 4 {
		t.Fatalf("an append with a message that is too large: %v, %d are left", err, len(rest))
	}
	checkFrames(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 5), want)
	many := slices.Concat(large(10, 7), messages(20, 10))
	want = appendFrames(t, target.Log, eventlog.AnySequence, many, 2, 2, 2, 11)
	checkFrames(t, take(t, mustRead(t, target.Log, eventlog.Facts, 6), len(many)), want)
}

// testFrameKinds: a frame has decisions of one kind, so that its subject shows it.
func testFrameKinds(t *testing.T, target Target) {
	decided := func(kind events.DecisionKind, uids ...string) (msgs []eventlog.Message) {
		for _, uid := range uids {
			msgs = append(msgs, events.EncodeDecision(events.Decision{Kind: kind, Pod: events.PodRef{UID: uid}}))
		}
		return msgs
	}
	msgs := slices.Concat(decided(events.DecisionPlaced, "a", "b", "c"), decided(events.DecisionLost, "d"),
		decided(events.DecisionPlaced, "e", "f"))
	want := appendFrames(t, target.Log, eventlog.AnySequence, msgs, 3, 1, 2)
	got := take(t, mustRead(t, target.Log, eventlog.Decisions, 1), len(msgs))
	checkFrames(t, got, want)
	for _, r := range got {
		if _, err := events.DecodeDecision(r); err != nil {
			t.Error(err)
		}
	}
}

// testWholeFrames: Next returns all records of a frame or none, also where they are more than it returns otherwise.
func testWholeFrames(t *testing.T, target Target) {
	const appends = 40
	sizes := map[uint64]int{}
	for i := range appends {
		size := 1 + i*i%frame.MaxRecords
		last, err := target.Log.Append(within(t), eventlog.Facts, eventlog.AnySequence, messages(1000*i, size))
		if err != nil {
			t.Fatal(err)
		}
		sizes[last] = size
	}
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	next := uint64(1)
	for ctx := within(t); next <= appends; {
		records, err := r.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for len(records) > 0 {
			size := sizes[next]
			checkWhole(t, records, next, size)
			records, next = records[size:], next+1
		}
	}
}

// checkWhole checks that records begin with all of a frame.
func checkWhole(t *testing.T, records []eventlog.Record, sequence uint64, size int) {
	t.Helper()
	if len(records) < size {
		t.Fatalf("%d records of a frame of %d", len(records), size)
	}
	for i, record := range records[:size] {
		if record.Sequence != sequence || record.Index != i {
			t.Fatalf("record %d.%d, want %d.%d", record.Sequence, record.Index, sequence, i)
		}
	}
}

// testFrameUnreadable: a record that no reader can decode does not take its neighbours along.
func testFrameUnreadable(t *testing.T, target Target) {
	for name, poison := range PoisonDecisions() {
		poison.Subject = decision("poison").Subject
		before := mustLast(t, target.Log, eventlog.Decisions)
		msgs := []eventlog.Message{decision("a"), poison, decision("b")}
		if _, err := target.Log.Append(within(t), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
			t.Fatal(err)
		}
		var read []string
		for _, r := range take(t, mustRead(t, target.Log, eventlog.Decisions, before+1), 3) {
			d, err := events.DecodeDecision(r)
			if err == nil {
				read = append(read, d.Pod.UID)
			}
		}
		if diff := cmp.Diff([]string{"a", "b"}, read); diff != "" {
			t.Errorf("%s: decisions (-want +got):\n%s", name, diff)
		}
	}
}

// testFrameLost: a reader notices when a frame was lost and another one has its sequence.
func testFrameLost(t *testing.T, target Target) {
	first := appendFrames(t, target.Log, eventlog.Tail{}, messages(1, 10), 10)
	restore := target.Checkpoint(t)
	lost := appendFrames(t, target.Log, eventlog.Tail{Sequence: 1}, messages(11, 5), 5)
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	checkFrames(t, take(t, r, 15), append(first, lost...))
	restore()
	_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: 2}, messages(16, 2))
	wantWrongSequence(t, err, 2, 1)
	end := frame.Tail(1, 1, messages(1, 10))
	want := appendFrames(t, target.Log, end, messages(100, 5), 5)
	appendFrames(t, target.Log, eventlog.AnySequence, messages(200, 5), 5)
	_, err = r.Next(within(t))
	wantGap(t, err, eventlog.Facts, 2)
	checkFrames(t, take(t, mustRead(t, target.Log, eventlog.Facts, 2), 10)[:5], want)
}

// testFramesAbout: records are found in frames as they are by themselves, and nothing else is.
func testFramesAbout(t *testing.T, target Target) {
	history, ok := target.Log.(eventlog.History)
	if !ok {
		t.Fatalf("%T is no events.History", target.Log)
	}
	decided := func(kind events.DecisionKind, uid string) eventlog.Message {
		return events.EncodeDecision(events.Decision{Kind: kind, Pod: events.PodRef{UID: uid, Name: "of " + uid}})
	}
	for i := range 60 {
		var msgs []eventlog.Message
		for n := range 1 + i%5 {
			msgs = append(msgs, decided(events.DecisionPlaced, fmt.Sprint("pod-", (7*i+n)%40)))
		}
		if i%9 == 0 {
			msgs = append(msgs, decided(events.DecisionBound, "pod-3"), decided(events.DecisionBound, "pod-3"))
		}
		if _, err := target.Log.Append(within(t), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, q eventlog.Query, limit int, wanted func(events.SequencedDecision) bool, from uint64) {
		t.Helper()
		want := positionsOf(t, target.Log, from, wanted)
		want = want[max(0, len(want)-limit):]
		found, err := history.About(within(t), eventlog.Decisions, q, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, record := range found {
			got = append(got, fmt.Sprintf("%d.%d %s", record.Sequence, record.Index, record.Header.Get(eventlog.HeaderUID)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	of := func(uid string) func(events.SequencedDecision) bool {
		return func(d events.SequencedDecision) bool { return d.Pod.UID == uid }
	}
	all := func(from uint64) {
		for _, uid := range []string{"pod-3", "pod-39", "pod-0", "nobody"} {
			check(uid, events.DecisionsAbout(uid), 1000, of(uid), from)
		}
		check("the newest of pod-3", events.DecisionsAbout("pod-3"), 4, of("pod-3"), from)
		check("bound", events.DecisionsOf(events.DecisionBound), 1000,
			func(d events.SequencedDecision) bool { return d.Kind == events.DecisionBound }, from)
	}
	all(1)
	target.Trim(t, eventlog.Decisions, 20)
	all(20)
	facts := append(messages(1, 3), messages(2, 2)...)
	facts = append(facts, events.EncodeFact(events.Fact{Kind: events.KindNode, Op: events.OpUpsert, UID: "node"}))
	appendFrames(t, target.Log, eventlog.Tail{}, facts, len(facts))
	found, err := history.About(within(t), eventlog.Facts, events.FactsAbout(events.KindPod, "uid-2"), 0)
	if err != nil || len(found) != 2 || found[0].Index != 1 || found[1].Index != 3 {
		t.Errorf("facts about uid-2: %v, %v", found, err)
	}
}

// positionsOf reads the decisions from a sequence on, and returns the positions and pods of those that are wanted.
func positionsOf(
	t *testing.T, log eventlog.Log, from uint64, wanted func(events.SequencedDecision) bool,
) (list []string) {
	t.Helper()
	r := mustRead(t, log, eventlog.Decisions, from)
	for last, at := mustLast(t, log, eventlog.Decisions), from-1; at < last; {
		records, err := r.Next(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			at = record.Sequence
			d, err := events.DecodeDecision(record)
			if err != nil {
				t.Fatal(err)
			}
			if wanted(d) {
				list = append(list, fmt.Sprintf("%d.%d %s", record.Sequence, record.Index, d.Pod.UID))
			}
		}
	}
	return list
}

// testFrameWriters: with the fence as compare-and-set, each frame was made by one writer that knew everything before.
func testFrameWriters(t *testing.T, target Target) {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			ctx := within(t)
			for done := 0; done < fencedPerWriter; {
				last, err := target.Log.Last(ctx, eventlog.Facts)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				// The first message of a frame shows where its writer expected it.
				msgs := messages(int(last)+1, 1+w%3)
				_, err = target.Log.Append(ctx, eventlog.Facts, eventlog.Tail{Sequence: last}, msgs)
				var wrong *eventlog.ErrWrongSequence
				switch {
				case err == nil:
					done++
				case !errors.As(err, &wrong):
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	group.Wait()
	if last := mustLast(t, target.Log, eventlog.Facts); t.Failed() || last != writers*fencedPerWriter {
		t.Fatalf("last is %d, want %d", last, writers*fencedPerWriter)
	}
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	for next := uint64(1); next <= writers*fencedPerWriter; {
		records, err := r.Next(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			want := fmt.Sprintf("uid-%d", record.Sequence+uint64(record.Index))
			if got := record.Header.Get(eventlog.HeaderUID); got != want {
				t.Fatalf("record %d.%d is about %s, want %s", record.Sequence, record.Index, got, want)
			}
			next = record.Sequence + 1
		}
	}
}

// RunFramesRestart checks, for implementations with a server, that a reader continues with the next frame when the
// server restarts, and a writer behind its last one.
func RunFramesRestart(t *testing.T, target Target, restart func(t *testing.T)) {
	want := appendFrames(t, target.Log, eventlog.Tail{}, messages(1, 10), 10)
	want = append(want, appendFrames(t, target.Log, eventlog.Tail{Sequence: 1}, messages(11, 20), 20)...)
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	checkFrames(t, take(t, r, 30), want)
	for n := range 2 {
		restart(t)
		tail := frame.Tail(1, uint64(2+n), messages(11+20*n, 20))
		msgs := messages(31+20*n, 20)
		for ctx := within(t); ; {
			_, err := target.Log.Append(ctx, eventlog.Facts, tail, msgs)
			last, lastErr := target.Log.Last(ctx, eventlog.Facts)
			if err == nil || lastErr == nil && last == tail.Sequence+1 {
				break
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		got := take(t, r, 20)
		if got[0].Sequence != tail.Sequence+1 || got[19].Index != 19 || got[19].Header.Get(eventlog.HeaderUID) !=
			msgs[19].Header.Get(eventlog.HeaderUID) {
			t.Fatalf("after restart %d: %v", n, got)
		}
	}
}
