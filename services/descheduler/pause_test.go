package descheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
)

func (w *world) throwPause() {
	w.t.Helper()
	p := pause.Pause{Since: time.Now(), By: "alice", Reason: "upgrade"}
	if err := pause.Begin(w.t.Context(), w.ledger, p); err != nil {
		w.t.Fatal(err)
	}
}

// TestPause: while the switch is set no replica requests evictions, nor one that is started in the meantime; a single
// cycle started by hand explains why, even if another replica leads; and after a resume the work continues.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.throwPause()
		first := w.start("d1")
		w.taintA()
		after(5 * time.Minute)
		w.wantAsks()
		first.stop()
		second := w.start("d2")
		after(5 * time.Minute)
		w.wantAsks()
		if n := strings.Count(w.output.String(), "msg=paused"); n != 2 {
			t.Errorf("two replicas told %d times that they are paused:\n%s", n, w.output.String())
		}

		var report plan.Report
		once := w.start("d3", func(c *Config) {
			c.Interval = 0
			c.Report = func(r plan.Report) { report = r }
		})
		if err := <-once.done; err != nil || !strings.Contains(report.Skipped, "by alice: upgrade") {
			t.Errorf("error %v, report %+v", err, report)
		}
		w.wantAsks()
		dry := w.start("d5", func(c *Config) {
			c.Interval, c.DryRun = 0, true
			c.Report = func(r plan.Report) { report = r }
		})
		if err := <-dry.done; err != nil || len(report.Evict) != 1 || !strings.Contains(report.Paused, "by alice: upgrade") {
			t.Errorf("dry run: error %v, report %+v", err, report)
		}

		second.stop()
		third := w.start("d4")
		defer third.stop()
		if err := pause.End(t.Context(), w.ledger); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		w.wantAsks("plain#1 by d4")
	})
}

// TestPauseStopsARunningCycle: a cycle that has its plan carries out none of it.
func TestPauseStopsARunningCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		planned := 0
		r := w.start("d1", func(c *Config) {
			c.Report = func(r plan.Report) {
				if planned += len(r.Evict); len(r.Evict) > 0 {
					w.throwPause()
					<-time.After(time.Second) // of the bubble: the replica notices
				}
			}
		})
		defer r.stop()
		after(5 * time.Minute)
		w.wantAsks()
		if planned != 1 {
			t.Errorf("%d evictions were planned, want 1", planned)
		}
		if !strings.Contains(w.output.String(), "cycle stopped") {
			t.Errorf("the log does not tell:\n%s", w.output.String())
		}
	})
}
