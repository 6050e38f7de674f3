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

// A dependency that goes and comes back makes two lines, however long it is away; one failure in
// between makes none. Readiness names the reason while it is away.
func TestOneLineForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var away atomic.Bool
		w := New("ledger (etcd)", func(context.Context) error {
			if away.Load() {
				return errors.New("no leader")
			}
			return nil
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
		pass(every)
		away.Store(false)
		pass(time.Minute)
		if w.Ready() != nil || log.Len() > 0 {
			t.Errorf("one failure: ready %v, log %q; want ready and nothing said", w.Ready(), log.String())
		}
		away.Store(true)
		pass(10 * time.Minute)
		if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "missing for 9m58s: no leader") {
			t.Errorf("away: ready %v, want the reason and since when", err)
		}
		away.Store(false)
		pass(time.Minute)
		if err := w.Ready(); err != nil {
			t.Errorf("back: ready %v, want nil", err)
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
