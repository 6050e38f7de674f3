package history_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// all reads a stream to its end.
type all struct {
	reader eventlog.Reader
	have   []eventlog.Record
	last   uint64
	at     uint64
}

func open(t *testing.T, log *memlog.Log) *all {
	t.Helper()
	last, err := log.Last(t.Context(), eventlog.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := log.Read(t.Context(), eventlog.Ledger, 1)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) {
		reader, err = log.Read(t.Context(), eventlog.Ledger, gap.Have)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return &all{reader: reader, last: last}
}

func (a *all) Next(ctx context.Context) (eventlog.Record, error) {
	if a.at >= a.last {
		return eventlog.Record{}, io.EOF
	}
	if len(a.have) == 0 {
		var err error
		if a.have, err = a.reader.Next(ctx); err != nil {
			return eventlog.Record{}, err
		}
	}
	r := a.have[0]
	a.have, a.at = a.have[1:], r.Sequence
	return r, nil
}

// world is a ledger whose history is recorded; states holds its content at each revision.
type world struct {
	store  *mem.Store
	log    *memlog.Log
	states map[int64]map[string]string
	now    map[string]string
}

func newWorld() *world {
	return &world{
		store: mem.New(), log: memlog.New(memlog.Options{}), states: map[int64]map[string]string{}, now: map[string]string{},
	}
}

func (w *world) recorder() *history.Recorder {
	return &history.Recorder{Log: w.log, Ledger: w.store, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}}
}

func (w *world) change(t rapid.TB, n int, value string) int64 {
	t.Helper()
	txn := ledger.Txn{}
	for i := range n {
		key := fmt.Sprintf("n/%d", i)
		if _, there := w.now[key]; there && i%3 == 2 {
			txn.Deletes = append(txn.Deletes, key)
			delete(w.now, key)
			continue
		}
		txn.Puts = append(txn.Puts, ledger.Put{Key: key, Value: []byte(value)})
		w.now[key] = value
	}
	r, err := w.store.Commit(context.Background(), txn)
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	for k, v := range w.now {
		state[k] = v
	}
	w.states[r.Revision] = state
	return r.Revision
}

func (w *world) cursor(t *testing.T) *history.Cursor {
	t.Helper()
	c, err := history.NewCursor(open(t, w.log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fold returns the content that a reader of batches has.
func fold(known map[string]string, batches []replica.Batch) map[string]string {
	for _, b := range batches {
		if b.Reset {
			known = map[string]string{}
			for _, kv := range b.KVs {
				known[kv.Key] = string(kv.Value)
			}
		}
		for _, ev := range b.Events.Events {
			if ev.Deleted {
				delete(known, ev.Key)
			} else {
				known[ev.Key] = string(ev.Value)
			}
		}
	}
	return known
}

// Recorders start and stop; a reader finds the ledger as it was at every revision since the first recorder listed
// it.
func TestEveryRevisionComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rounds := rapid.IntRange(1, 4).Draw(rt, "recorders")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 30).Draw(rt, "changes")
		stops := rapid.SliceOfN(rapid.Bool(), len(sizes), len(sizes)).Draw(rt, "pauses")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			first := w.change(t, 3, "before")
			var revisions []int64
			for round := range rounds {
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.recorder().Run(ctx) }()
				synctest.Wait()
				for i, n := range sizes {
					revisions = append(revisions, w.change(t, n, fmt.Sprintf("%d/%d", round, i)))
					if stops[i] {
						time.Sleep(time.Minute)
					}
				}
				time.Sleep(time.Duration(round) * 10 * time.Minute)
				stop()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			// Changes that the last recorder had not written are taken from the ledger by the next one.
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.recorder().Run(ctx) }()
			time.Sleep(time.Minute)
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			w.check(t, first, revisions)
		})
	})
}

func (w *world) check(t *testing.T, first int64, revisions []int64) {
	t.Helper()
	cursor := w.cursor(t)
	known := map[string]string{}
	for _, revision := range append([]int64{first}, revisions...) {
		batches, err := cursor.To(t.Context(), revision)
		if err != nil {
			t.Fatalf("revision %d: %v", revision, err)
		}
		known = fold(known, batches)
		if diff := cmp.Diff(w.states[revision], known); diff != "" {
			t.Fatalf("the ledger at revision %d (-is +read): %s", revision, diff)
		}
	}
}

// Changes that were never recorded, because they were compacted first, are missing and reported as missing.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		run := func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := w.recorder().Run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		first := w.change(t, 2, "a")
		run()
		missed := w.change(t, 3, "b")
		after := w.change(t, 4, "c")
		if err := w.store.Compact(after); err != nil {
			t.Fatal(err)
		}
		run()
		cursor := w.cursor(t)
		batches, err := cursor.To(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		var gap *history.GapError
		if _, err := cursor.To(t.Context(), missed); !errors.As(err, &gap) || gap.From != first {
			t.Fatalf("revision %d: %v, want a gap after %d", missed, err, first)
		}
		known := fold(map[string]string{}, batches)
		if batches, err = cursor.To(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.states[after], fold(known, batches)); diff != "" {
			t.Errorf("after the gap: %s", diff)
		}
		if _, err := cursor.To(t.Context(), after+1); !errors.As(err, &gap) || gap.To != 0 {
			t.Errorf("behind the end: %v, want a gap without end", err)
		}
	})
}

// Put looks ahead and removes nothing.
func TestPutLooksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.change(t, 1, "a")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.recorder().Run(ctx) }()
		synctest.Wait()
		second := w.change(t, 2, "b")
		time.Sleep(time.Second)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cursor := w.cursor(t)
		if _, err := cursor.To(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		one, err := cursor.Put(t.Context(), second, "n/1")
		if err != nil || len(one) != 1 || string(one[0].Value) != "b" {
			t.Fatalf("one key of revision %d: %v, %v", second, one, err)
		}
		both, err := cursor.Put(t.Context(), second, "")
		if err != nil || len(both) != 2 {
			t.Fatalf("revision %d: %v, %v, want two keys", second, both, err)
		}
		batches, err := cursor.To(t.Context(), second)
		if err != nil || len(batches[0].Events.Events) != 2 {
			t.Fatalf("the step to revision %d: %+v, %v", second, batches, err)
		}
	})
}
