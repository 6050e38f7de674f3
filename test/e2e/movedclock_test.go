//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/services/binder"
)

// movedClock tells a later time than it is. Its timers and tickers are real ones.
type movedClock struct {
	clock.RealClock
	ahead atomic.Int64
}

// forward moves the clock on; without a clock nothing happens.
func (c *movedClock) forward(by time.Duration) {
	if c != nil {
		c.ahead.Add(int64(by))
	}
}

// Now implements clock.PassiveClock.
func (c *movedClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements clock.PassiveClock.
func (c *movedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// binderOn runs a binder in the test's own process, until the test ends: the binary has no other clock than the
// real one.
func (f *fleet) binderOn(c clock.WithTicker, id string) {
	f.Helper()
	file, err := os.Create(filepath.Join(f.dir, id+".log"))
	f.no(err)
	logger := slog.New(slog.NewTextHandler(file, nil))
	log, err := jetstream.Open(f.Context(), jetstream.Config{URLs: []string{f.natsURL}, Logger: logger})
	f.no(err)
	store, err := etcd.Open(f.Context(), etcd.Config{Endpoints: []string{f.etcdURL}})
	f.no(err)
	b, err := binder.New(binder.Config{ID: id}, binder.Deps{
		Log: log, Snapshots: log, Ledger: store, RestConfig: f.cluster.Rest, Logger: logger, Clock: c,
	})
	f.no(err)
	ctx, stop := context.WithCancel(context.WithoutCancel(f.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		err := <-ended
		log.Close()
		if err := errors.Join(err, store.Close(), file.Close()); err != nil {
			f.Error(err)
		}
	})
	f.eventually(placedWithin, id+" is ready", func(context.Context) (string, error) {
		if err := b.Ready(); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}
