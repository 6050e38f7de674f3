package eventstest

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

func testReadFrom(t *testing.T, target Target) {
	msgs := messages(1, 50)
	mustAppend(t, target.Log, eventlog.Facts, 0, msgs)
	for _, from := range []uint64{1, 2, 25, 50} {
		checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, from), 51-int(from)), from, msgs[from-1:])
	}
	r := mustRead(t, target.Log, eventlog.Facts, 51)
	mustAppend(t, target.Log, eventlog.Facts, 50, messages(51, 3))
	checkRecords(t, take(t, r, 3), 51, messages(51, 3))
}

func testReadGap(t *testing.T, target Target) {
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 10))
	_, err := target.Log.Read(within(t), eventlog.Facts, 0)
	wantGap(t, err, eventlog.Facts, 0)
	target.Trim(t, eventlog.Facts, 6)
	for _, from := range []uint64{1, 5} {
		_, err := target.Log.Read(within(t), eventlog.Facts, from)
		wantGap(t, err, eventlog.Facts, from)
	}
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 6), 5), 6, messages(6, 5))
	target.Trim(t, eventlog.Facts, 11)
	_, err = target.Log.Read(within(t), eventlog.Facts, 10)
	wantGap(t, err, eventlog.Facts, 10)
	if last := mustLast(t, target.Log, eventlog.Facts); last != 10 {
		t.Errorf("last is %d after everything was trimmed, want 10", last)
	}
	r := mustRead(t, target.Log, eventlog.Facts, 11)
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(11, 1))
	checkRecords(t, take(t, r, 1), 11, messages(11, 1))
}

// testReadAhead: a reader that asks for more than the next sequence has seen records that the log has lost.
func testReadAhead(t *testing.T, target Target) {
	_, err := target.Log.Read(within(t), eventlog.Facts, 2)
	wantGap(t, err, eventlog.Facts, 2)
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 3))
	_, err = target.Log.Read(within(t), eventlog.Facts, 5)
	wantGap(t, err, eventlog.Facts, 5)
}

func testTwoReaders(t *testing.T, target Target) {
	first, second := mustRead(t, target.Log, eventlog.Facts, 1), mustRead(t, target.Log, eventlog.Facts, 1)
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 30))
	checkRecords(t, take(t, first, 30), 1, messages(1, 30))
	first.Close()
	mustAppend(t, target.Log, eventlog.Facts, 30, messages(31, 30))
	checkRecords(t, take(t, second, 60), 1, messages(1, 60))
}

func testBlockedReader(t *testing.T, target Target) {
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	for n := range uint64(20) {
		got := make(chan []eventlog.Record, 1)
		go func() {
			defer close(got)
			if records, err := r.Next(within(t)); err == nil {
				got <- records
			}
		}()
		mustAppend(t, target.Log, eventlog.Facts, n, messages(int(n)+1, 1))
		checkRecords(t, <-got, n+1, messages(int(n)+1, 1))
	}
}

// testInterruptedReader: an interrupted Next loses nothing.
func testInterruptedReader(t *testing.T, target Target) {
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	for n := range uint64(20) {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		var records []eventlog.Record
		go func() {
			var err error
			records, err = r.Next(ctx)
			result <- err
		}()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatalf("next returned %d records and %v", len(records), err)
		}
		mustAppend(t, target.Log, eventlog.Facts, n, messages(int(n)+1, 1))
		checkRecords(t, take(t, r, 1), n+1, messages(int(n)+1, 1))
	}
}

func testClosedReader(t *testing.T, target Target) {
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	result := make(chan error, 1)
	go func() {
		_, err := r.Next(within(t))
		result <- err
	}()
	r.Close()
	r.Close()
	if err := <-result; !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("blocked next: %v, want %v", err, eventlog.ErrClosed)
	}
	if _, err := r.Next(within(t)); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("next after close: %v, want %v", err, eventlog.ErrClosed)
	}
}

func testClosedLog(t *testing.T, target Target) {
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	result := make(chan error, 1)
	go func() {
		_, err := r.Next(within(t))
		result <- err
	}()
	target.Close()
	_, appendErr := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{}, messages(1, 1))
	_, anyErr := target.Log.Append(within(t), eventlog.Facts, eventlog.AnySequence, messages(1, 1))
	_, lastErr := target.Log.Last(within(t), eventlog.Facts)
	_, readErr := target.Log.Read(within(t), eventlog.Facts, 1)
	_, _, _, latestErr := target.Snapshots.Latest(within(t), eventlog.Facts)
	_, subscribeErr := target.Bus.Subscribe("a.b", func([]byte) {})
	for what, err := range map[string]error{
		"blocked next": <-result, "append": appendErr, "append without fence": anyErr, "last": lastErr, "read": readErr,
		"latest": latestErr, "put": target.Snapshots.Put(within(t), eventlog.Facts, 1, nil),
		"publish": target.Bus.Publish("a.b", nil), "subscribe": subscribeErr,
	} {
		if !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("%s: %v, want %v", what, err, eventlog.ErrClosed)
		}
	}
	target.Close()
}

// testLostTail: the writer's fence and a reader that has seen more both notice.
func testLostTail(t *testing.T, target Target) {
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 10))
	restore := target.Checkpoint(t)
	behind, ahead := mustRead(t, target.Log, eventlog.Facts, 1), mustRead(t, target.Log, eventlog.Facts, 1)
	checkRecords(t, take(t, behind, 10), 1, messages(1, 10))
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(11, 5))
	checkRecords(t, take(t, ahead, 15), 1, messages(1, 15))
	checkRecords(t, take(t, behind, 5), 11, messages(11, 5))
	restore()

	if last := mustLast(t, target.Log, eventlog.Facts); last != 10 {
		t.Fatalf("last is %d after the loss, want 10", last)
	}
	_, err := target.Log.Append(within(t), eventlog.Facts, eventlog.Tail{Sequence: 15}, messages(16, 1))
	wantWrongSequence(t, err, 15, 10)
	_, err = target.Log.Read(within(t), eventlog.Facts, 16)
	wantGap(t, err, eventlog.Facts, 16)
	_, err = ahead.Next(within(t))
	wantGap(t, err, eventlog.Facts, 15)
	_, err = ahead.Next(within(t))
	wantGap(t, err, eventlog.Facts, 15)
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 10), 1, messages(1, 10))
}

// testLostTailRefilled: a reader also notices when other records have taken the sequences of the lost ones, and
// further ones, before it looks.
func testLostTailRefilled(t *testing.T, target Target) {
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 10))
	restore := target.Checkpoint(t)
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(11, 5))
	ahead, inside := mustRead(t, target.Log, eventlog.Facts, 1), mustRead(t, target.Log, eventlog.Facts, 5)
	checkRecords(t, take(t, ahead, 15), 1, messages(1, 15))
	checkRecords(t, take(t, inside, 11), 5, messages(5, 11))
	restore()
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(100, 20))
	for _, r := range []eventlog.Reader{ahead, inside} {
		_, err := r.Next(within(t))
		wantGap(t, err, eventlog.Facts, 15)
	}
	fresh := mustRead(t, target.Log, eventlog.Facts, 11)
	checkRecords(t, take(t, fresh, 20), 11, messages(100, 20))
}

// testLostTailUnread: a reader that has not returned the lost records yet either continues without them, or returns
// them (they may have been in flight) and then notices, without any further write.
func testLostTailUnread(t *testing.T, target Target) {
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 10))
	restore := target.Checkpoint(t)
	r := mustRead(t, target.Log, eventlog.Facts, 11)
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(11, 5))
	// After a round trip the records have been delivered to a reader to which they are pushed.
	if last := mustLast(t, target.Log, eventlog.Facts); last != 15 {
		t.Fatalf("last is %d", last)
	}
	restore()
	mustAppend(t, target.Log, eventlog.Facts, 10, messages(100, 5))
	records, err := r.Next(within(t))
	for len(records) < 5 && err == nil {
		var more []eventlog.Record
		more, err = r.Next(within(t))
		records = append(records, more...)
	}
	switch {
	case err == nil && records[0].Header.Get(eventlog.HeaderUID) == "uid-100":
		checkRecords(t, records, 11, messages(100, 5))
		return
	case err == nil:
		checkRecords(t, records, 11, messages(11, 5))
		_, err = r.Next(within(t))
	}
	wantGap(t, err, eventlog.Facts, 10+uint64(len(records)))
}

// RunRestart checks, for implementations with a server, that stored data persists and that readers, writers and
// subscribers continue when the server shuts down in an orderly way and starts again, which restart does.
func RunRestart(t *testing.T, target Target, restart func(t *testing.T)) {
	mustAppend(t, target.Log, eventlog.Facts, 0, messages(1, 10))
	if err := target.Snapshots.Put(within(t), eventlog.Facts, 7, []byte("snapshot")); err != nil {
		t.Fatal(err)
	}
	received := make(chan string, 1)
	subscribe(t, target.Bus, "a.b", func(data []byte) { received <- string(data) })
	r := mustRead(t, target.Log, eventlog.Facts, 1)
	checkRecords(t, take(t, r, 10), 1, messages(1, 10))
	for n := range uint64(2) {
		restart(t)
		appendThrough(t, target.Log, eventlog.Facts, 10+n, messages(11+int(n), 1))
		checkRecords(t, take(t, r, 1), 11+n, messages(11+int(n), 1))
	}
	checkRecords(t, take(t, mustRead(t, target.Log, eventlog.Facts, 1), 12), 1, messages(1, 12))
	checkSnapshot(t, target.Snapshots, eventlog.Facts, 7, []byte("snapshot"))
	if err := target.Bus.Publish("a.b", []byte("after")); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "after" {
		t.Errorf("heard %q", got)
	}
}
