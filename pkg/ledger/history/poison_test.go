package history_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
)

// record runs a recorder for a minute.
func (w *world) record(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := w.recorder().Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func (w *world) poison(t *testing.T) {
	t.Helper()
	m := eventlog.Message{Subject: eventlog.SubjectLedgerChanges, Data: []byte("poison")}
	if _, err := w.log.Append(t.Context(), eventlog.Ledger, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
		t.Fatal(err)
	}
}

// is checks what a cursor returns for a revision.
func (w *world) is(t *testing.T, cursor *history.Cursor, known map[string]string, revision int64) map[string]string {
	t.Helper()
	batches, err := cursor.To(t.Context(), revision)
	if err != nil {
		t.Fatalf("revision %d: %v", revision, err)
	}
	known = fold(known, batches)
	if diff := cmp.Diff(w.states[revision], known); diff != "" {
		t.Fatalf("the ledger at revision %d (-is +read): %s", revision, diff)
	}
	return known
}

// A record that cannot be read, at the end or in the middle, is skipped: a recorder begins with a snapshot after it,
// and a reader continues there.
func TestRecordThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.change(t, 3, "a")
		w.record(t)
		w.poison(t)
		ending, err := history.Recorded(t.Context(), w.log)
		if err != nil || ending.Through < first {
			t.Errorf("recorded through %d (%v), want %d at least", ending.Through, err, first)
		}
		second := w.change(t, 4, "b")
		w.record(t)
		third := w.change(t, 5, "c")
		w.record(t)
		known := map[string]string{}
		cursor := w.cursor(t)
		known = w.is(t, cursor, known, first)
		var gap *history.GapError
		if _, err := cursor.To(t.Context(), second-1); err != nil && !errors.As(err, &gap) {
			t.Fatal(err)
		}
		known = w.is(t, cursor, known, second)
		w.is(t, cursor, known, third)
	})
}

// The ledger goes back: the records before and after that describe different contents under the same revisions.
func TestHistoryOfALedgerThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		early := w.change(t, 2, "a")
		backup := w.store.Backup()
		for range 5 {
			w.change(t, 3, "lost")
		}
		last := w.change(t, 3, "lost too")
		w.record(t)
		before := w.states
		w.store = w.store.Restore(backup, false)
		w.states, w.now = map[int64]map[string]string{}, maps.Clone(before[early])
		again := w.change(t, 4, "other")
		w.record(t)
		beyond := last
		for beyond <= last {
			beyond = w.change(t, 3, "further")
		}
		w.record(t)
		after := w.states

		cursor := w.cursor(t)
		w.states = before
		known := w.is(t, cursor, map[string]string{}, last)
		w.states = after
		known = w.is(t, cursor, known, again)
		w.is(t, cursor, known, beyond)
		ending, err := history.Recorded(t.Context(), w.log)
		if err != nil || ending.Through != beyond || ending.Last.ModRevision != beyond {
			t.Errorf("the history ends at %d with a change of %d (%v), want %d", ending.Through, ending.Last.ModRevision,
				err, beyond)
		}
	})
}
