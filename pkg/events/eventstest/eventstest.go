package eventstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// patience bounds every wait of the suite. It is far longer than any operation takes, so that only a hang reaches
// it.
const patience = 30 * time.Second

// Target is one implementation under test, freshly opened and empty.
type Target struct {
	Log       eventlog.Log
	Snapshots eventlog.Snapshots
	Bus       eventlog.Bus
	// Close closes all three.
	Close func()
	// Trim removes the records of the stream before first, as retention would.
	Trim func(t *testing.T, s eventlog.Stream, first uint64)
	// Checkpoint returns a function that takes the log back to its present content, as a power loss does, and
	// returns when the log answers again.
	Checkpoint func(t *testing.T) (restore func())
}

// Run checks that the targets that open returns, whose streams have single records, fulfil the contract. open is called
// once per test and registers its own clean-up. RunFrames is for streams of frames.
func Run(t *testing.T, open func(t *testing.T) Target) { run(t, open) }

// run runs all tests but some.
func run(t *testing.T, open func(t *testing.T) Target, without ...string) {
	for name, test := range map[string]func(t *testing.T, target Target){
		"empty":                   testEmpty,
		"append":                  testAppend,
		"content":                 testContent,
		"refused appends":         testRefusedAppends,
		"fence":                   testFence,
		"fence with batches":      testFenceBatch,
		"fence with a subject":    testFenceSubject,
		"refilled to its length":  testFenceRefilled,
		"streams are independent": testStreamsIndependent,
		"concurrent appends":      testConcurrentAppends,
		"contending writers":      testContendingWriters,
		"read from":               testReadFrom,
		"read behind retention":   testReadGap,
		"read ahead":              testReadAhead,
		"about":                   testAbout,
		"two readers":             testTwoReaders,
		"blocked reader":          testBlockedReader,
		"interrupted reader":      testInterruptedReader,
		"closed reader":           testClosedReader,
		"closed log":              testClosedLog,
		"cancelled context":       testCancelled,
		"lost tail":               testLostTail,
		"lost tail, filled again": testLostTailRefilled,
		"lost tail, unread":       testLostTailUnread,
		"snapshots":               testSnapshots,
		"large snapshot":          testLargeSnapshot,
		"bus":                     testBus,
		"bus is not stored":       testBusNotStored,
		"bus answers":             testBusAnswers,
		"bus refusals":            testBusRefusals,
	} {
		if !slices.Contains(without, name) {
			t.Run(name, func(t *testing.T) { test(t, open(t)) })
		}
	}
}

// within returns a context that ends after patience.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// messages returns n facts whose content is numbered from, from+1 and so on.
func messages(from, n int) []eventlog.Message {
	msgs := make([]eventlog.Message, n)
	for i := range msgs {
		msgs[i] = events.EncodeFact(events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: fmt.Sprintf("uid-%d", from+i), Namespace: "ns",
			Name: fmt.Sprintf("pod-%d", from+i), ResourceVersion: uint64(from + i), Progress: 1,
			Cause: "watch", Object: fmt.Appendf(nil, "object %d", from+i),
		})
	}
	return msgs
}

// decision returns one message for the stream of decisions.
func decision(uid string) eventlog.Message {
	return events.EncodeDecision(events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: uid, Namespace: "ns", Name: uid}, Actor: "scheduler-0",
	})
}

// mustAppend appends and checks the sequence returned.
func mustAppend(t testing.TB, log eventlog.Log, s eventlog.Stream, expect uint64, msgs []eventlog.Message) uint64 {
	t.Helper()
	last, err := log.Append(within(t), s, eventlog.Tail{Sequence: expect}, msgs)
	if err != nil {
		t.Fatalf("append %d messages to %s behind %d: %v", len(msgs), s, int64(expect), err)
	}
	if expect != anywhere && last != expect+uint64(len(msgs)) {
		t.Fatalf("append %d messages to %s behind %d: last sequence %d", len(msgs), s, expect, last)
	}
	return last
}

// appendThrough appends after expect, however often the outcome stays unknown, in the way that the contract of
// eventlog.Log describes.
func appendThrough(t testing.TB, log eventlog.Log, s eventlog.Stream, expect uint64, msgs []eventlog.Message) {
	t.Helper()
	ctx := within(t)
	err := errors.New("not tried")
	for ctx.Err() == nil && err != nil {
		if _, err = log.Append(ctx, s, eventlog.Tail{Sequence: expect}, msgs); err == nil {
			return
		}
		last, lastErr := log.Last(ctx, s)
		switch {
		case lastErr != nil || last == expect:
		case last == expect+uint64(len(msgs)):
			return
		default:
			t.Fatalf("append to %s behind %d: %v, and then its last sequence is %d", s, expect, err, last)
		}
	}
	t.Fatalf("append to %s behind %d: %v", s, expect, err)
}

// anywhere is mustAppend's value for eventlog.AnySequence.
var anywhere = eventlog.AnySequence.Sequence

func mustLast(t testing.TB, log eventlog.Log, s eventlog.Stream) uint64 {
	t.Helper()
	last, err := log.Last(within(t), s)
	if err != nil {
		t.Fatalf("last of %s: %v", s, err)
	}
	return last
}

func mustRead(t testing.TB, log eventlog.Log, s eventlog.Stream, from uint64) eventlog.Reader {
	t.Helper()
	r, err := log.Read(within(t), s, from)
	if err != nil {
		t.Fatalf("read %s from %d: %v", s, from, err)
	}
	t.Cleanup(r.Close)
	return r
}

// take reads exactly n records.
func take(t testing.TB, r eventlog.Reader, n int) []eventlog.Record {
	t.Helper()
	var records []eventlog.Record
	for ctx := within(t); len(records) < n; {
		batch, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("next after %d of %d records: %v", len(records), n, err)
		}
		if len(batch) == 0 {
			t.Fatal("next returned no record and no error")
		}
		records = append(records, batch...)
	}
	if len(records) > n {
		t.Fatalf("read %d records, want %d", len(records), n)
	}
	return records
}

// checkRecords checks that records are msgs with consecutive sequences from first.
func checkRecords(t testing.TB, records []eventlog.Record, first uint64, msgs []eventlog.Message) {
	t.Helper()
	want := make([]eventlog.Record, len(msgs))
	for i, m := range msgs {
		want[i] = eventlog.Record{Message: m, Sequence: first + uint64(i)}
	}
	options := cmp.Options{cmpopts.EquateEmpty(), wholeData, cmpopts.IgnoreFields(eventlog.Record{}, "Time", "Frame")}
	if diff := cmp.Diff(want, records, options); diff != "" {
		t.Fatalf("records differ (-want +got):\n%s", diff)
	}
	for i := 1; i < len(records); i++ {
		if records[i].Time.IsZero() || records[i].Time.Before(records[i-1].Time) {
			t.Fatalf("record %d has time %v after %v", records[i].Sequence, records[i].Time, records[i-1].Time)
		}
	}
}

// wholeData compares payloads as a whole: some are too large to be compared byte by byte.
var wholeData = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))

func wantGap(t testing.TB, err error, s eventlog.Stream, want uint64) {
	t.Helper()
	var gap *eventlog.ErrGap
	if !errors.As(err, &gap) || gap.Stream != s || gap.Want != want {
		t.Fatalf("got %v, want a gap of stream %s at %d", err, s, want)
	}
}

func wantWrongSequence(t testing.TB, err error, expected, actual uint64) {
	t.Helper()
	var wrong *eventlog.ErrWrongSequence
	if !errors.As(err, &wrong) || wrong.Expected != expected || wrong.Actual != actual && wrong.Actual != 0 {
		t.Fatalf("got %v, want a wrong sequence: expected %d, actual %d or not told", err, expected, actual)
	}
}
