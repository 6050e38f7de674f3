package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// The pause stays as it was set, whichever client reads it, and may be set twice.
func TestPause(t *testing.T) {
	store := mem.New()
	expect := func(want *ledger.Pause) {
		t.Helper()
		got, _, err := ledger.DeschedulingPause(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(nil)
	since := time.UnixMilli(1772366400123)
	for _, p := range []ledger.Pause{{Since: since}, {Since: since, By: "alice", Reason: "upgrade"}} {
		if err := ledger.PauseDescheduling(t.Context(), store, p); err != nil {
			t.Fatal(err)
		}
		expect(&p)
	}
	for range 2 {
		if err := ledger.ResumeDescheduling(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		expect(nil)
	}
	for p, want := range map[ledger.Pause]string{
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
