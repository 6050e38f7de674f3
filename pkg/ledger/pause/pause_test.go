package pause_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
)

// The pause stays as it was set, whichever client reads it, and may be set twice.
func TestPause(t *testing.T) {
	store := mem.New()
	expect := func(want *pause.Pause) {
		t.Helper()
		got, _, err := pause.Current(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(nil)
	since := time.UnixMilli(1772366400123)
	for _, p := range []pause.Pause{{Since: since}, {Since: since, By: "alice", Reason: "upgrade"}} {
		if err := pause.Begin(t.Context(), store, p); err != nil {
			t.Fatal(err)
		}
		expect(&p)
	}
	for range 2 {
		if err := pause.End(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		expect(nil)
	}
	for p, want := range map[pause.Pause]string{
		{Since: since}:                                 "since 2026-03-01T12:00:00Z",
		{Since: since, By: "alice"}:                    "since 2026-03-01T12:00:00Z by alice",
		{Since: since, By: "alice", Reason: "upgrade"}: "since 2026-03-01T12:00:00Z by alice: upgrade",
		{Since: since, Reason: "upgrade"}:              "since 2026-03-01T12:00:00Z: upgrade",
	} {
		if p.String() != want {
			t.Errorf("%q, want %q", p.String(), want)
		}
	}
}
