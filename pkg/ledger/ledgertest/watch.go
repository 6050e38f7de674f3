package ledgertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// write makes a small history under k/ (and noise next to it) and returns the events that a watch of k/ must
// deliver.
func write(t *testing.T, s ledger.Store) []ledger.Event {
	t.Helper()
	var want []ledger.Event
	created := map[string]int64{}
	for round := range 20 {
		value := []byte{byte(round)}
		r := mustCommit(t, s, ledger.Txn{Puts: []ledger.Put{
			{Key: "k/a", Value: value}, {Key: "k/b", Value: value}, {Key: "noise", Value: value},
		}})
		for _, key := range []string{"k/a", "k/b"} {
			if created[key] == 0 {
				created[key] = r
			}
			want = append(want, ledger.Event{KV: ledger.KV{
				Key: key, Value: value, CreateRevision: created[key], ModRevision: r,
			}})
		}
		mustCommit(t, s, put("noise", "more"))
		if round%5 == 4 {
			r = mustCommit(t, s, ledger.Txn{Deletes: []string{"k/a"}})
			created["k/a"] = 0
			want = append(want, ledger.Event{KV: ledger.KV{Key: "k/a", ModRevision: r}, Deleted: true})
		}
	}
	return want
}

// check compares what a watch delivered with want, and requires whole revisions in order.
func check(t *testing.T, want []ledger.Event, got []ledger.EventBatch) {
	t.Helper()
	var events []ledger.Event
	var last int64
	for _, b := range got {
		if b.Revision <= last && len(b.Events) > 0 {
			t.Errorf("batch of revision %d follows %d", b.Revision, last)
		}
		for _, ev := range b.Events {
			if ev.ModRevision <= last || ev.ModRevision > b.Revision {
				t.Errorf("event of revision %d in a batch of (%d, %d]", ev.ModRevision, last, b.Revision)
			}
		}
		events = append(events, b.Events...)
		last = max(last, b.Revision)
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func watchOrder(t *testing.T, h Harness) {
	_, start := list(t, h.Store, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	live := h.Store.Watch(ctx, "k/", start+1)
	want := write(t, h.Store)
	last := want[len(want)-1].ModRevision
	check(t, want, watchFor(t, live, upTo(last)))
	late := h.Store.Watch(ctx, "k/", start+1)
	check(t, want, watchFor(t, late, upTo(last)))
}

func watchResume(t *testing.T, h Harness) {
	want := write(t, h.Store)
	last := want[len(want)-1].ModRevision
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, i := range []int{0, 1, 2, 7, len(want) - 1} {
		from := want[i].ModRevision
		rest := want
		for len(rest) > 0 && rest[0].ModRevision < from {
			rest = rest[1:]
		}
		check(t, rest, watchFor(t, h.Store.Watch(ctx, "k/", from), upTo(last)))
	}
	future := h.Store.Watch(ctx, "k/", last+1)
	r := mustCommit(t, h.Store, put("k/a", "seen"))
	got := watchFor(t, future, upTo(r))
	if n := len(got[0].Events); n != 1 || string(got[0].Events[0].Value) != "seen" {
		t.Errorf("a watch from the next revision saw %+v", got)
	}
}

// watchBeyond runs last: the store of its harness is unusable afterwards.
func watchBeyond(t *testing.T, h Harness) {
	want := write(t, h.Store)
	var replaced *ledger.StoreReplacedError
	err := ended(t, h.Store.Watch(t.Context(), "k/", want[len(want)-1].ModRevision+1000))
	if !errors.As(err, &replaced) {
		t.Errorf("a watch from a revision that the store has not come to: %v, want *ledger.StoreReplacedError", err)
	}
}

func watchCompacted(t *testing.T, h Harness) {
	want := write(t, h.Store)
	kvs, revision := list(t, h.Store, "k/")
	h.Compact(t, revision)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := h.Store.Watch(ctx, "k/", want[0].ModRevision)
	if err := ended(t, w); !errors.Is(err, ledger.ErrCompacted) {
		t.Errorf("watch of compacted revisions: %v, want ErrCompacted", err)
	}
	if again, _ := list(t, h.Store, "k/"); cmp.Diff(kvs, again) != "" {
		t.Errorf("compaction changed the keys:\n%s", cmp.Diff(kvs, again))
	}
	after := h.Store.Watch(ctx, "k/", revision+1)
	r := mustCommit(t, h.Store, put("k/z", "1"))
	watchFor(t, after, upTo(r))
	if err := ended(t, h.Store.Watch(ctx, "k/", 0)); err == nil {
		t.Error("watch from revision 0: no error")
	}
}

func watchEnds(t *testing.T, h Harness) {
	_, revision := list(t, h.Store, "")
	ctx, cancel := context.WithCancel(t.Context())
	idle := h.Store.Watch(ctx, "k/", revision+1)
	blocked := h.Store.Watch(ctx, "k/", revision+1)
	mustCommit(t, h.Store, put("k/a", "1"))
	cancel()
	for _, w := range []ledger.Watch{idle, blocked} {
		if err := ended(t, w); err != nil {
			t.Errorf("watch whose context ended: %v, want nil", err)
		}
	}
}

// ended drains a watch until it ends, and returns its error.
func ended(t *testing.T, w ledger.Watch) error {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case _, ok := <-w.Batches():
			if !ok {
				return w.Err()
			}
		case <-timeout:
			t.Fatalf("watch did not end within %s", patience)
		}
	}
}
