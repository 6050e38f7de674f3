package descheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// errPaused ends a cycle while the descheduler is paused.
var errPaused = errors.New("descheduling is paused")

// pauseSwitch is the stop switch of all replicas, which is stored in the ledger (pause.Key). A cycle reads the ledger
// before it begins; while it runs, the goroutine that follows the ledger stops it. A pause that is set and removed
// while no cycle runs has no effect. It is safe for concurrent use.
type pauseSwitch struct {
	mu struct {
		sync.Mutex
		// stop stops the running cycle; nil when none runs.
		stop context.CancelCauseFunc
		// logged means that the pause that is in force has been logged.
		logged bool
	}
}

// running returns the context of one cycle, which a pause ends. At most one cycle runs at a time. The function that it
// returns must be called when the cycle has ended.
func (s *pauseSwitch) running(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stop = stop
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.stop = nil
		stop(nil)
	}
}

// stopCycle stops the running cycle, if there is one, with errPaused as the cause of its context.
func (s *pauseSwitch) stopCycle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stop != nil {
		s.mu.stop(errPaused)
	}
}

// changed reports whether the present state of the switch has yet to be logged.
func (s *pauseSwitch) changed(paused bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.mu.logged != paused
	s.mu.logged = paused
	return changed
}

// followPause stops cycles when the switch is set, until ctx ends.
func (d *Descheduler) followPause(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.watchPause(ctx); err != nil && ctx.Err() == nil {
			d.deps.Logger.Warn("stop switch not readable; retrying", "retryIn", retryPause, telemetry.KeyError, err)
		}
		d.pause(ctx, retryPause)
	}
}

// watchPause stops cycles until the watch of the switch ends. The watch begins behind the revision that was read, so no
// change is missed.
func (d *Descheduler) watchPause(ctx context.Context) error {
	p, revision, err := pause.Current(ctx, d.deps.Ledger)
	if err != nil {
		return err
	}
	if p != nil {
		d.paused.stopCycle()
	}
	watch := d.deps.Ledger.Watch(ctx, pause.Key, revision+1)
	for batch := range watch.Batches() {
		for _, e := range batch.Events {
			if e.Key == pause.Key && !e.Deleted {
				d.paused.stopCycle()
			}
		}
	}
	return watch.Err()
}

// currentPause reads the switch from the ledger, and logs a change once.
func (d *Descheduler) currentPause(ctx context.Context) (*pause.Pause, error) {
	p, _, err := pause.Current(ctx, d.deps.Ledger)
	if err != nil {
		return nil, err
	}
	switch changed := d.paused.changed(p != nil); {
	case changed && p != nil:
		d.deps.Logger.Info("paused", "since", p.Since.UTC().Format(time.RFC3339), "by", p.By, "reason", p.Reason)
	case changed:
		d.deps.Logger.Info("resumed")
	}
	return p, nil
}

// pauseNote returns a note for the report of a dry run while the switch is set: the dry run itself is not
// stopped, but its evictions would not happen. It is empty if the switch is not set or there is no ledger to read.
func (d *Descheduler) pauseNote(ctx context.Context) (string, error) {
	if !d.cfg.DryRun || d.deps.Ledger == nil {
		return "", nil
	}
	p, err := d.currentPause(ctx)
	if err != nil || p == nil {
		return "", err
	}
	return errPaused.Error() + " " + p.String(), nil
}

// refusePaused returns errPaused while the switch is set, and puts it into the report. A switch that cannot be read
// is an error and stops the cycle as well: evicting nothing is the safe side. A dry run evicts nothing and is never
// refused.
func (d *Descheduler) refusePaused(ctx context.Context) error {
	if d.cfg.DryRun {
		return nil
	}
	p, err := d.currentPause(ctx)
	if err != nil || p == nil {
		return err
	}
	if d.cfg.Report != nil {
		d.cfg.Report(plan.Report{Skipped: errPaused.Error() + " " + p.String()})
	}
	return errPaused
}
