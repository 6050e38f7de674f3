package depend

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A dependency that goes missing and comes back causes two lines, however long it is missing; a single failure causes
// none. Readiness names the reason while it is missing, and the metric follows.
func TestOneLineForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var away, up atomic.Bool
		w := New(Dependency{
			Name: "ledger (etcd)",
			Probe: func(context.Context) error {
				if away.Load() {
					return errors.New("no leader")
				}
				return nil
			},
			Report: up.Store,
		}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return w.Run(ctx) })

		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:calls // virtual time of the bubble
			synctest.Wait()
		}
		pass(time.Minute)
		away.Store(true)
		pass(probeInterval)
		away.Store(false)
		pass(time.Minute)
		if w.Ready() != nil || log.Len() > 0 || !up.Load() {
			t.Errorf("one failure: ready %v, up %t, log %q; want ready and nothing said",
				w.Ready(), up.Load(), log.String())
		}
		away.Store(true)
		pass(10 * time.Minute)
		if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "missing for 9m58s: no leader") {
			t.Errorf("away: ready %v, want the reason and since when", err)
		}
		if up.Load() {
			t.Error("away: reported as up")
		}
		away.Store(false)
		pass(time.Minute)
		if err := w.Ready(); err != nil || !up.Load() {
			t.Errorf("back: ready %v, up %t, want nil and up", err, up.Load())
		}
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "dependency missing") || !strings.Contains(lines[1], "is back") {
			t.Errorf("log %q, want one line for each change", lines)
		}
	})
}

// An etcd without authentication causes one line when it is found and one when that has ended; a check without an
// answer changes nothing.
func TestOpenLedgerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var on, silent, off atomic.Bool
		a := NewAuthentication(func(context.Context) (bool, error) {
			if silent.Load() {
				return false, errors.New("no leader")
			}
			return on.Load(), nil
		}, off.Store, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return a.Run(ctx) })
		expect := func(when string, isOff bool, lines int) {
			time.Sleep(10 * checkInterval) //nolint:calls // virtual time of the bubble
			synctest.Wait()
			if got := strings.Count(log.String(), "\n"); off.Load() != isOff || got != lines {
				t.Errorf("%s: off %t, %d lines; want %t, %d:\n%s", when, off.Load(), got, isOff, lines, &log)
			}
		}
		synctest.Wait()
		if !off.Load() {
			t.Error("not asked at the start")
		}
		expect("open", true, 1)
		silent.Store(true)
		expect("no answer", true, 1)
		silent.Store(false)
		on.Store(true)
		expect("closed", false, 2)
		on.Store(false)
		expect("open again", true, 3)
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}
