package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/commit"
	"github.com/berth-scheduler/berth/services/queue/internal/decide"
	"github.com/berth-scheduler/berth/services/queue/internal/intake"
)

const (
	// Election is the name under which replicas elect their leader.
	Election = "queue"
	// factWindow is how many facts may wait for the log: four batches.
	factWindow = 4 * events.MaxBatch
	// retryPause is the wait before another candidacy, round or claim after an error.
	retryPause = time.Second
	// farewell bounds each thing a leader still does after it was told to stop (the last
	// snapshot, resigning), and the question whether it still leads.
	farewell = 5 * time.Second
)

var (
	errSessionLost = errors.New("queue: the session with the ledger is lost")
	errDeposed     = errors.New("queue: another replica leads")
)

// compete runs for leadership, leads, and runs again, until ctx ends. Only a ledger that
// belongs to another cluster makes it give up.
func (q *Queue) compete(ctx context.Context, member *membership.Member, clusterUID string) error {
	for ctx.Err() == nil {
		err := q.candidacy(ctx, member, clusterUID)
		var foreign *ledger.ClusterMismatchError
		if errors.As(err, &foreign) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		q.logger.Warn("leadership ended, competing again", "error", err)
		q.pause(ctx)
	}
	return nil
}

// candidacy is one session: it waits to lead, leads, and leaves in good order.
func (q *Queue) candidacy(life context.Context, member *membership.Member, clusterUID string) error {
	session, err := member.Alive(life)
	if err != nil {
		return err
	}
	defer q.resign(life, session)
	// Stop offering first, whatever ended the term.
	defer q.send(life, decide.StepDown{})
	group, ctx := errgroup.WithContext(life)
	ctx, done := context.WithCancel(ctx)
	group.Go(func() error {
		select {
		case <-session.Done():
			return errSessionLost
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		defer done()
		term, err := q.deps.Elections.Campaign(ctx, session, Election, q.cfg.ID)
		if err != nil {
			return fmt.Errorf("queue: campaign: %w", err)
		}
		return q.reign(ctx, session, term, clusterUID)
	})
	return group.Wait()
}

// resign gives the leadership up, so that the next leader need not wait.
func (q *Queue) resign(ctx context.Context, session ledger.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := q.deps.Elections.Resign(ctx, session, Election); err != nil {
		q.logger.Warn("resigning failed, the session will run out by itself", "error", err)
	}
}

// reign is one leadership: rounds, each of which makes the log true and then keeps it so.
func (q *Queue) reign(ctx context.Context, session ledger.Session, term int64, clusterUID string) error {
	if err := q.claim(ctx, clusterUID); err != nil {
		return err
	}
	q.logger.Info("leading", "term", term)
	recording, stop := context.WithCancel(ctx)
	recorders, recording := errgroup.WithContext(recording)
	recorders.Go(func() error { return q.recorder().Run(recording) })
	defer func() {
		stop()
		_ = recorders.Wait() // it has no error but the end of its context
	}()
	led := false
	cause := intake.CauseList
	for n := (commit.Round{Term: term}); ; n.Number++ {
		err := q.round(ctx, n, cause, func() {
			if !led {
				led = q.send(ctx, decide.Lead{Term: term})
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		q.logger.Warn("the round ended, comparing the log with the cluster again", "error", err)
		cause = intake.CauseRepair
		if err := q.confirm(ctx, session, term); err != nil || ctx.Err() != nil {
			return err
		}
		q.pause(ctx)
	}
}

// recorder writes the ledger's history, which is the leader's to do because one must.
func (q *Queue) recorder() *history.Recorder {
	return &history.Recorder{Log: q.deps.Log, Ledger: q.deps.Ledger, Logger: q.logger, Clock: q.deps.Clock}
}

// confirm asks the ledger whether this replica still leads under a term. A leader may
// campaign again under its session: the answer is the same term, at once; anything else
// means that the term is over.
func (q *Queue) confirm(ctx context.Context, session ledger.Session, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	again, err := q.deps.Elections.Campaign(ctx, session, Election, q.cfg.ID)
	if err != nil {
		return fmt.Errorf("queue: confirm leadership: %w", err)
	}
	if again != term {
		return errDeposed
	}
	return nil
}

// claim ties the ledger to the cluster, or finds that it belongs to another.
func (q *Queue) claim(ctx context.Context, clusterUID string) error {
	for {
		err := ledger.ClaimCluster(ctx, q.deps.Ledger, clusterUID)
		var foreign *ledger.ClusterMismatchError
		if err == nil || errors.As(err, &foreign) {
			return err
		}
		q.logger.Warn("claiming the ledger failed, trying again", "error", err)
		q.pause(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// round makes the log true from its end on: under a new epoch, it publishes how the
// cluster differs from what the log says, then what the watches tell. synced is called
// when the log's readers have progress again. It ends when the log is not what the writer made
// it, or cannot be followed.
//
// What a crash leaves behind: before the epoch opens, nothing; inside it, an open epoch,
// in which no reader has progress until the next leader's round opens and ends another.
func (q *Queue) round(ctx context.Context, n commit.Round, cause string, synced func()) error {
	picture, base, err := q.settle(ctx)
	if err != nil {
		return err
	}
	epoch := n.Epoch(base.Epoch)
	facts := make(chan events.Fact, factWindow)
	writer := commit.NewWriter(q.deps.Log, q.logger, q.deps.Clock, base, epoch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return writer.Run(ctx, cause, facts) })
	group.Go(func() error { return q.followed(ctx) })
	group.Go(func() error {
		return q.cluster.Watch(ctx, intake.Round{
			Base: picture, Cause: cause, Logger: logr.FromSlogHandler(q.logger.Handler()),
			Metrics: intake.Metrics{Every: q.cfg.MetricsInterval, Clock: q.deps.Clock, Logger: q.logger},
			Whole:   slices.ContainsFunc(q.cfg.Profiles, placement.ProfileConfig.ShowsObjects),
		}, facts)
	})
	group.Go(func() error {
		// An error here is the end of ctx, which ends the round in its own way.
		if _, err := q.applied.await(ctx, func(s *state.Snapshot) bool { return open(s, epoch) }); err == nil {
			synced()
			q.keepSnapshots(ctx, epoch)
		}
		return nil
	})
	return group.Wait()
}

// open says whether a state has progress in an epoch: the epoch's end is applied.
func open(s *state.Snapshot, epoch uint64) bool {
	_, ok := s.Position().Progress(events.KindPod)
	return ok && s.Position().Epoch == epoch
}

// send hands an input to the deciding goroutine; false if ctx ended first.
func (q *Queue) send(ctx context.Context, in decide.Input) bool {
	select {
	case q.inputs <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

func (q *Queue) pause(ctx context.Context) {
	timer := q.deps.Clock.NewTimer(retryPause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
