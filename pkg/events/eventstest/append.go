package eventstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

func testEmpty(t *testing.T, target Target) {
	for _, s := range eventlog.Streams() {
		if last := mustLast(t, target.Log, s); last != 0 {
			t.Errorf("last of empty stream %s is %d", s, last)
		}
	}
	if _, err := target.Log.Last(within(t), "NONSENSE"); err == nil {
		t.Error("last of a stream that does not exist: no error")
	}
	if _, err := target.Log.Read(within(t), "NONSENSE", 1); err == nil {
		t.Error("read of a stream that does not exist: no error")
	}
}

func testAppend(t *testing.T, target Target) {
	msgs := messages(1, 1+2+eventlog.MaxBatch)
	if last := mustAppend(t, target.Log, eventlog.Facts, anywhere, msgs[:1]); last != 1 {
		t.Fatalf("last after one message is %d", last)
	}
	if last := mustAppend(t, target.Log, eventlog.Facts, anywhere, msgs[1:3]); last != 3 {
		t.Fatalf("last after three messages is %d", last)
	}
	mustAppend(t, target.Log, eventlog.Facts, 3, msgs[3:])
	if last := mustLast(t, target.Log, eventlog.Facts); last != uint64(len(msgs)) {
		t.Fatalf("last is %d, want %d", last, len(msgs))
	}
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), len(msgs)), 1, msgs)
}

func testContent(t *testing.T, target Target) {
	long := strings.Repeat("long ", 1000)
	msgs := []eventlog.Message{
		{Subject: "facts.pod.a"},
		{Subject: "facts.pod.b", Header: eventlog.Header{}, Data: []byte{}},
		{
			Subject: "facts.pod.c", Data: []byte{0, 255, 10, 13},
			Header: eventlog.NewHeader(map[string]string{"uid": "c", "traceparent": "00-ab-01"}),
		},
		{Subject: "facts.pod.d", Data: bytes.Repeat([]byte("x"), 900<<10)},
		events.EncodeFact(events.Fact{
			Kind: events.KindNode, Op: events.OpUpsert, UID: "ü.*> \r\n", Name: "% 1\x00" + long, Cause: " blanks ",
		}),
	}
	mustAppend(t, target.Log, eventlog.Facts, 0, msgs)
	records := take(t, mustRead(t, target.Log, eventlog.Facts, 1), len(msgs))
	checkRecords(t, records, 1, msgs)
	fact, err := events.DecodeFact(records[4])
	if err != nil {
		t.Fatal(err)
	}
	if fact.UID != "ü.*> \r\n" || fact.Name != "% 1\x00"+long || fact.Cause != " blanks " || fact.Sequence != 5 {
		t.Errorf("fact came back as %+v", fact)
	}
}

func testRefusedAppends(t *testing.T, target Target) {
	for name, msgs := range map[string][]eventlog.Message{
		"none":           nil,
		"too many":       messages(1, eventlog.MaxBatch+1),
		"wrong stream":   {{Subject: "decisions.a.placed"}},
		"wildcard":       {{Subject: "facts.pod.*"}},
		"empty token":    {{Subject: "facts.pod..a"}},
		"bad in a batch": append(messages(1, 3), eventlog.Message{Subject: "facts.pod.a b"}),
		"too large":      {{Subject: "facts.pod.a"}, {Subject: "facts.pod.b", Data: make([]byte, eventlog.MaxMessage+1)}},
	} {
		for _, expect := range []eventlog.Tail{eventlog.AnySequence, {}} {
			last, err := target.Log.Append(within(t), eventlog.Facts, expect, msgs)
			if refused := new(eventlog.ErrRefused); !errors.As(err, &refused) {
				t.Errorf("%s: stored up to %d with error %v, want ErrRefused", name, last, err)
			}
		}
	}
	if last := mustLast(t, target.Log, eventlog.Facts); last != 0 {
		t.Errorf("last is %d after refused appends only", last)
	}
}

func testFence(t *testing.T, target Target) {
	msgs := messages(1, 3)
	_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: 1}, msgs[:1])
	wantWrongSequence(t, err, 1, 0)
	mustAppend(t, target.Log, eventlog.Facts, 0, msgs[:1])
	mustAppend(t, target.Log, eventlog.Facts, 1, msgs[1:2])
	for _, expect := range []uint64{0, 1, 3} {
		_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: expect}, msgs[2:])
		wantWrongSequence(t, err, expect, 2)
	}
	mustAppend(t, target.Log, eventlog.Facts, 2, msgs[2:])
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 3), 1, msgs)
}

func testFenceBatch(t *testing.T, target Target) {
	msgs := messages(1, 20)
	mustAppend(t, target.Log, eventlog.Facts, 0, msgs[:10])
	for _, expect := range []uint64{0, 5, 9, 11} {
		_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: expect}, messages(100, 10))
		wantWrongSequence(t, err, expect, 10)
	}
	if last := mustLast(t, target.Log, eventlog.Facts); last != 10 {
		t.Fatalf("last is %d after fenced batches were refused, want 10", last)
	}
	mustAppend(t, target.Log, eventlog.Facts, 10, msgs[10:])
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 20), 1, msgs)
}

// behind returns the tail that a writer of msgs expects once it has stored all of them.
func behind(sequence uint64, msgs []eventlog.Message) eventlog.Tail {
	return eventlog.Tail{Sequence: sequence, Subject: msgs[len(msgs)-1].Subject}
}

// testFenceSubject: with a subject, the expectation refers to that very record, in a single message and in a batch.
func testFenceSubject(t *testing.T, target Target) {
	msgs := messages(1, 20)
	mustAppend(t, target.Log, eventlog.Facts, 0, msgs[:3])
	refused := func(expect eventlog.Tail) {
		t.Helper()
		for _, n := range []int{1, 5} {
			_, err := target.Log.Append(within(t), eventlog.Facts, expect, messages(100, n))
			wantWrongSequence(t, err, expect.Sequence, 3)
		}
	}
	refused(behind(3, msgs[:2]))                                       // another record's subject
	refused(behind(3, msgs[3:4]))                                      // a subject that was never stored
	refused(eventlog.Tail{Sequence: 3, Subject: "facts.pod.uid-3.99"}) // the same object in another epoch
	refused(behind(2, msgs[:2]))                                       // it exists, and is not the last
	refused(behind(4, msgs[:3]))
	for _, n := range []int{1, 4} {
		last := mustLast(t, target.Log, eventlog.Facts)
		end, err := target.Log.Append(within(t), eventlog.Facts, behind(last, msgs[:last]), msgs[last:last+uint64(n)])
		if err != nil || end != last+uint64(n) {
			t.Fatalf("append %d behind the record that is the last: %d, %v", n, end, err)
		}
	}
	// The same subject again: the expectation refers to its newest record.
	mustAppend(t, target.Log, eventlog.Facts, 8, msgs[:1])
	_, err := target.Log.Append(within(t), eventlog.Facts, behind(1, msgs[:1]), messages(100, 1))
	wantWrongSequence(t, err, 1, 9)
	if _, err := target.Log.Append(within(t), eventlog.Facts, behind(9, msgs[:1]), msgs[8:]); err != nil {
		t.Fatal(err)
	}
	// A record that retention has deleted cannot be the last record any more.
	target.Trim(t, eventlog.Facts, 22)
	_, err = target.Log.Append(within(t), eventlog.Facts, behind(21, msgs), messages(100, 1))
	wantWrongSequence(t, err, 21, 21)
	mustAppend(t, target.Log, eventlog.Facts, 21, messages(21, 1))
}

// testFenceRefilled: a log that has lost its tail and has been refilled by another writer to the same length looks
// unchanged to a fence on sequences alone, but not to a fence on records. Neither time nor a restart weakens that.
func testFenceRefilled(t *testing.T, target Target) {
	written := func(epoch uint64, from, n int) []eventlog.Message {
		msgs := make([]eventlog.Message, n)
		for i := range msgs {
			msgs[i] = events.EncodeFact(events.Fact{
				Kind: events.KindPod, Op: events.OpProgress, Progress: uint64(from + i), Epoch: epoch, Cause: "watch",
			})
		}
		return msgs
	}
	first, second := written(1, 1, 10), written(2, 1, 10)
	mustAppend(t, target.Log, eventlog.Facts, 0, first[:5])
	restore := target.Checkpoint(t)
	mustAppend(t, target.Log, eventlog.Facts, 5, first[5:])
	restore()
	mustAppend(t, target.Log, eventlog.Facts, 5, second[5:])
	for _, n := range []int{1, 3} {
		_, err := target.Log.Append(within(t), eventlog.Facts, behind(10, first), written(1, 11, n))
		wantWrongSequence(t, err, 10, 10)
	}
	restore = target.Checkpoint(t) // a restart that loses nothing
	restore()
	if _, err := target.Log.Append(within(t), eventlog.Facts, behind(10, second), written(2, 11, 3)); err != nil {
		t.Fatalf("the writer whose record it is: %v", err)
	}
}

func testStreamsIndependent(t *testing.T, target Target) {
	facts, decisions := messages(1, 3), []eventlog.Message{decision("a"), decision("b")}
	mustAppend(t, target.Log, eventlog.Facts, 0, facts[:2])
	mustAppend(t, target.Log, eventlog.Decisions, 0, decisions)
	mustAppend(t, target.Log, eventlog.Facts, 2, facts[2:])
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 3), 1, facts)
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Decisions, 1), 2), 1, decisions)
}

// Sizes of the concurrent tests: large enough for callers to interleave.
const (
	writers          = 8
	appendsPerWriter = 40
	fencedPerWriter  = 4
)

// testConcurrentAppends: each of several concurrent callers without a fence gets the sequence of its own last
// message, and its messages are stored in its order. Every tenth append is long.
func testConcurrentAppends(t *testing.T, target Target) {
	size := func(w, i int) int { return 1 + (w+i)%3 + (w+i)%10/9*200 }
	var mu sync.Mutex
	reported := map[string]uint64{} // by the last message of each append
	total := 0
	var group sync.WaitGroup
	for w := range writers {
		for i := range appendsPerWriter {
			total += size(w, i)
		}
		group.Go(func() {
			for i := range appendsPerWriter {
				var msgs []eventlog.Message
				for part := range size(w, i) {
					msgs = append(msgs, decision(fmt.Sprintf("%d-%d-%d", w, i, part)))
				}
				last, err := target.Log.Append(within(t), eventlog.Decisions, eventlog.AnySequence, msgs)
				if err != nil {
					t.Errorf("writer %d, append %d: %v", w, i, err)
					return
				}
				mu.Lock()
				reported[msgs[len(msgs)-1].Header.Get(eventlog.HeaderUID)] = last
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	next := [writers][2]int{} // append and part that must come next
	for n, record := range take(t, mustRead(t, target.Log, eventlog.Decisions, 1), total) {
		id := record.Header.Get(eventlog.HeaderUID)
		var w, i, part int
		if _, err := fmt.Sscanf(id, "%d-%d-%d", &w, &i, &part); err != nil {
			t.Fatal(err)
		}
		if got := [2]int{i, part}; got != next[w] || record.Sequence != uint64(n+1) {
			t.Fatalf("record %d with sequence %d is %s, want part %v", n+1, record.Sequence, id, next[w])
		}
		next[w][1]++
		if part == size(w, i)-1 {
			next[w] = [2]int{i + 1, 0}
			if reported[id] != record.Sequence {
				t.Fatalf("append %d-%d returned %d as the last sequence, it is %d", w, i, reported[id], record.Sequence)
			}
		}
	}
}

// testContendingWriters: when writers use the fence as compare-and-set, each append was made by exactly one writer
// that knew everything before it.
func testContendingWriters(t *testing.T, target Target) {
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
				// The message records what its writer expected, the record where it was stored.
				_, err = target.Log.Append(ctx, eventlog.Facts, eventlog.Tail{Sequence: last}, messages(int(last)+1, 1+w%2))
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
	if t.Failed() {
		return
	}
	total := writers * fencedPerWriter * 3 / 2 // every other writer appends two at a time
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), total), 1, messages(1, total))
}

func testCancelled(t *testing.T, target Target) {
	ctx, cancel := context.WithCancel(t.Context())
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	cancel()
	if _, err := target.Log.Append(ctx, eventlog.Facts, eventlog.Tail{}, messages(1, 1)); !errors.Is(err,
		context.Canceled) {
		t.Errorf("append: %v", err)
	}
	_, err := target.Log.Append(ctx, eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{decision("a")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("append without fence: %v", err)
	}
	if _, err := target.Log.Last(ctx, eventlog.Facts); !errors.Is(err, context.Canceled) {
		t.Errorf("last: %v", err)
	}
	if _, err := target.Log.Read(ctx, eventlog.Facts, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("next: %v", err)
	}
	if last := mustLast(t, target.Log, eventlog.Facts) + mustLast(t, target.Log, eventlog.Decisions); last != 0 {
		t.Errorf("%d messages were stored under a cancelled context", last)
	}
}
