package leader

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/generation"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// factWindow is how many facts may wait to be written to the log: four batches.
const factWindow = 4 * eventlog.MaxBatch

// holePauses spaces the rounds that end because of an undecodable fact, from 1 s to 1 min: republishing everything
// again and again is much work for every reader, and the process that wrote the last such fact may write another one.
var holePauses = wait.Backoff{Duration: retryPause, Factor: 2, Steps: 20, Cap: time.Minute}

// cause describes how a round came about.
type cause struct {
	// label is the cause of the facts that are published first.
	label string
	// evidence is the knowledge of the ledger before the round.
	evidence generation.Evidence
}

// serveTerm leads for one term, as a series of rounds, each of which repairs the log and then keeps it current.
func (c *Candidate) serveTerm(ctx context.Context, session ledger.Session, term int64, clusterUID string) error {
	why, err := c.firstCause(ctx, clusterUID)
	if err != nil {
		return err
	}
	c.Logger.Info("leading", "term", term)
	began := c.Clock.Now()
	recording, stop := context.WithCancel(ctx)
	recorders, recording := errgroup.WithContext(recording)
	recorders.Go(func() error { return c.historyRecorder().Run(recording) })
	if c.WhileLeading != nil {
		recorders.Go(func() error { c.WhileLeading(recording); return nil })
	}
	defer func() {
		stop()
		_ = recorders.Wait() // its only error is the end of its context
	}()
	// The core is put into the lead once in a term: later rounds repair the log while it goes on offering.
	led, holes := false, holePauses
	for n := (commit.Round{Term: term}); ; n.Number++ {
		err := c.round(ctx, n, why, func(ctx context.Context) {
			if led {
				return
			}
			if led = c.lead(ctx, term); led {
				c.Logger.Info("offering pods", "term", term, "sinceElection", c.Clock.Since(began))
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("leadership round ended; comparing the log with the cluster again", telemetry.KeyError, err)
		why = repairAfter(err)
		if err := c.confirm(ctx, session, term); err != nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errHole) {
			_ = sleep(ctx, c.Clock, holes.Step()) // it fails when ctx ends, which shows below
		} else {
			pause(ctx, c.Clock)
		}
	}
}

// firstCause ties the ledger to the cluster, or fails if the ledger belongs to another, and reads how the ledger's
// history ends before this leader writes any of it.
func (c *Candidate) firstCause(ctx context.Context, clusterUID string) (cause, error) {
	var refused error
	claimed, err := retry(ctx, &c.Deps, "claim the ledger", func() (bool, error) {
		had, err := identity.BindCluster(ctx, c.Ledger, clusterUID)
		var foreign *identity.ClusterMismatchError
		if errors.As(err, &foreign) {
			refused, err = err, nil
		}
		return had, err
	})
	if err := errors.Join(refused, err); err != nil {
		return cause{}, err
	}
	recorded, err := retry(ctx, &c.Deps, "read the end of the ledger history", func() (history.Ending, error) {
		return history.Recorded(ctx, c.Log)
	})
	evidence := generation.Evidence{Claimed: claimed, Recorded: recorded}
	return cause{label: intake.CauseList, evidence: evidence}, err
}

// repairAfter returns the cause of the round that follows one that has ended with an error.
func repairAfter(err error) cause {
	evidence := generation.Evidence{Claimed: true}
	var back *intake.WentBackError
	if errors.As(err, &back) {
		evidence.WentBack = back.Error()
	}
	return cause{label: intake.CauseRepair, evidence: evidence}
}

// lead puts the core into the lead under a term, with the end of the decisions of earlier leaders. It reports false
// if ctx ended first.
func (c *Candidate) lead(ctx context.Context, term int64) bool {
	decided, err := retry(ctx, &c.Deps, "read the end of the decision log", func() (uint64, error) {
		return c.Log.Last(ctx, eventlog.Decisions)
	})
	return err == nil && c.Decider.Lead(ctx, term, decided)
}

// historyRecorder returns the writer of the ledger's history. The leader runs it, because exactly one process must.
func (c *Candidate) historyRecorder() *history.Recorder {
	return &history.Recorder{Log: c.Log, Ledger: c.Ledger, Logger: c.Logger, Clock: c.Clock}
}

// round repairs the log from its end on: under a new epoch, it publishes how the cluster differs from the log and
// then what the watches deliver. synced is called when the log's readers have progress again. The round ends when the
// log contains something that the writer did not write, or cannot be followed.
//
// A crash before the epoch opens leaves nothing behind. A crash inside it leaves an open epoch, in which no reader
// has progress until the next leader's round opens and ends another.
func (c *Candidate) round(ctx context.Context, n commit.Round, why cause, synced func(context.Context)) error {
	facts, base, err := c.tail.settle(ctx)
	if err != nil {
		return err
	}
	n.Begun = c.Clock.Now()
	on, err := c.Generations.Ensure(ctx, why.evidence, n.Epoch(base.Epoch))
	if err != nil {
		return err
	}
	if on.FactsAfter > 0 && base.Epoch <= on.FactsAfter {
		// The facts in the log may no longer be true, even under the same resourceVersions.
		facts, base.Anew = state.New().Snapshot(), true
	}
	n.Begun = c.Clock.Now()
	epoch := n.Epoch(max(base.Epoch, on.FactsAfter))
	toWrite := make(chan events.Fact, factWindow)
	writer := commit.NewWriter(c.Log, c.Logger, c.Clock, base, epoch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return writer.Run(ctx, why.label, toWrite) })
	group.Go(func() error { return c.tail.watchProgress(ctx) })
	group.Go(func() error { return c.tail.watchHole(ctx, base.Tail.Sequence) })
	group.Go(func() error {
		return c.Cluster.Watch(ctx, intake.Round{
			Base: facts, Reached: on.Reached, Cause: why.label, Logger: logr.FromSlogHandler(c.Logger.Handler()),
			Metrics: intake.Metrics{Every: c.cfg.MetricsInterval, Clock: c.Clock, Logger: c.Logger},
			Whole:   c.cfg.WholeObjects,
		}, toWrite)
	})
	group.Go(func() error {
		// An error here means that ctx has ended, which ends the round in its own way.
		if _, err := c.Applied.Await(ctx, func(s *state.Snapshot) bool { return inEpoch(s, epoch) }); err == nil {
			synced(ctx)
			c.snapshots.run(ctx, epoch)
		}
		return nil
	})
	return group.Wait()
}
