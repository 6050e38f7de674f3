package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

const (
	// Election is the name under which replicas elect their leader.
	Election = "queue"
	// factWindow is how many facts may wait to be written to the log: four batches.
	factWindow = 4 * eventlog.MaxBatch
	// retryPause is the wait before another candidacy, round or claim after an error.
	retryPause = time.Second
	// farewell bounds each step that a leader still takes after it was asked to stop (the last snapshot, resigning),
	// and the request that confirms that it still leads.
	farewell = 5 * time.Second
)

// holePauses spaces the rounds that end because of an undecodable fact, from 1 s to 1 min: republishing everything
// again and again is much work for every reader, and the process that wrote the last such fact may write another one.
var holePauses = wait.Backoff{Duration: retryPause, Factor: 2, Steps: 20, Cap: time.Minute}

var (
	errSessionLost = errors.New("queue: ledger session lost")
	errDeposed     = errors.New("queue: another replica leads")
)

// compete campaigns for leadership, leads, and campaigns again, until ctx ends. It gives up only if the ledger
// belongs to another cluster.
func (q *Queue) compete(ctx context.Context, member *membership.Member, clusterUID string) error {
	for ctx.Err() == nil {
		err := q.candidacy(ctx, member, clusterUID)
		var foreign *identity.ClusterMismatchError
		if errors.As(err, &foreign) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		q.logger.Warn("leadership lost; campaigning again", telemetry.KeyError, err)
		q.pause(ctx)
	}
	return nil
}

// candidacy runs one session: it waits for leadership, leads, and resigns in order.
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

// resign gives up the leadership, so that the next leader need not wait for the session to expire.
func (q *Queue) resign(ctx context.Context, session ledger.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := q.deps.Elections.Resign(ctx, session, Election); err != nil {
		q.logger.Warn("could not resign; the session will expire", telemetry.KeyError, err)
	}
}

// reign runs one leadership as a series of rounds, each of which repairs the log and then keeps it current.
func (q *Queue) reign(ctx context.Context, session ledger.Session, term int64, clusterUID string) error {
	claimed, err := q.claim(ctx, clusterUID)
	if err != nil {
		return err
	}
	recorded, err := q.recorded(ctx)
	if err != nil {
		return err
	}
	q.logger.Info("leading", "term", term)
	recording, stop := context.WithCancel(ctx)
	recorders, recording := errgroup.WithContext(recording)
	recorders.Go(func() error { return q.recorder().Run(recording) })
	defer func() {
		stop()
		_ = recorders.Wait() // its only error is the end of its context
	}()
	led, holes := false, holePauses
	from := beginning{cause: intake.CauseList, claimed: claimed, recorded: recorded}
	for n := (commit.Round{Term: term}); ; n.Number++ {
		err := q.round(ctx, n, from, func(ctx context.Context) {
			led = led || q.lead(ctx, term)
		})
		if ctx.Err() != nil {
			return nil
		}
		q.logger.Warn("leadership round ended; comparing the log with the cluster again", telemetry.KeyError, err)
		from = beginning{cause: intake.CauseRepair, claimed: true}
		var back *intake.WentBackError
		if errors.As(err, &back) {
			from.wentBack = back.Error()
		}
		if err := q.confirm(ctx, session, term); err != nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errHole) {
			_ = sleep(ctx, q.deps.Clock, holes.Step()) // it fails when ctx ends, which shows below
		} else {
			q.pause(ctx)
		}
	}
}

// lead puts the core into the lead under a term, with the end of the decisions of earlier leaders. It reports false
// if ctx ended first.
func (q *Queue) lead(ctx context.Context, term int64) bool {
	decided, err := insist(ctx, q, "read the end of the decision log", func() (uint64, error) {
		return q.deps.Log.Last(ctx, eventlog.Decisions)
	})
	return err == nil && q.send(ctx, decide.Lead{Term: term, Decided: decided})
}

// recorder returns the writer of the ledger's history. The leader runs it, because exactly one process must.
func (q *Queue) recorder() *history.Recorder {
	return &history.Recorder{Log: q.deps.Log, Ledger: q.deps.Ledger, Logger: q.logger, Clock: q.deps.Clock}
}

// confirm checks with the ledger that this replica still leads under a term. A leader may campaign again under its
// session and gets the same term at once; any other result means that the term has ended.
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

// claim ties the ledger to the cluster, or fails if the ledger belongs to another. before reports whether the ledger
// belonged to this cluster already.
func (q *Queue) claim(ctx context.Context, clusterUID string) (before bool, err error) {
	var refused error
	before, err = insist(ctx, q, "claim the ledger", func() (bool, error) {
		had, err := identity.BindCluster(ctx, q.deps.Ledger, clusterUID)
		var foreign *identity.ClusterMismatchError
		if errors.As(err, &foreign) {
			refused, err = err, nil
		}
		return had, err
	})
	return before, errors.Join(refused, err)
}

// insist calls ask until it succeeds. It returns an error only when ctx ends.
func insist[T any](ctx context.Context, q *Queue, what string, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if err == nil {
			return answer, nil
		}
		q.logger.Warn("call failed; retrying", "operation", what, telemetry.KeyError, err)
		q.pause(ctx)
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
	}
}

// beginning describes how a round came about.
type beginning struct {
	// cause is the cause of the facts that are published first.
	cause string
	// claimed means that the ledger belonged to the cluster before this leader led.
	claimed bool
	// recorded is the end of the ledger's history in the log at that time.
	recorded history.Ending
	// wentBack describes which changes the previous round found Kubernetes to have lost; empty for none.
	wentBack string
}

// recorded reads how the ledger's history ends, before this leader writes any of it.
func (q *Queue) recorded(ctx context.Context) (history.Ending, error) {
	return insist(ctx, q, "read the end of the ledger history", func() (history.Ending, error) {
		return history.Recorded(ctx, q.deps.Log)
	})
}

// round repairs the log from its end on: under a new epoch, it publishes how the cluster differs from the log and
// then what the watches deliver. synced is called when the log's readers have progress again. The round ends when the
// log contains something that the writer did not write, or cannot be followed.
//
// A crash before the epoch opens leaves nothing behind. A crash inside it leaves an open epoch, in which no reader
// has progress until the next leader's round opens and ends another.
func (q *Queue) round(ctx context.Context, n commit.Round, from beginning, synced func(context.Context)) error {
	picture, base, err := q.settle(ctx)
	if err != nil {
		return err
	}
	n.Begun = q.deps.Clock.Now()
	on, err := q.generations.ensure(ctx, from, n.Epoch(base.Epoch))
	if err != nil {
		return err
	}
	if on.factsAfter > 0 && base.Epoch <= on.factsAfter {
		// The facts in the log may no longer be true, even under the same resourceVersions.
		picture, base.Anew = state.New().Snapshot(), true
	}
	n.Begun = q.deps.Clock.Now()
	epoch := n.Epoch(max(base.Epoch, on.factsAfter))
	facts := make(chan events.Fact, factWindow)
	writer := commit.NewWriter(q.deps.Log, q.logger, q.deps.Clock, base, epoch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return writer.Run(ctx, from.cause, facts) })
	group.Go(func() error { return q.followed(ctx) })
	group.Go(func() error { return q.whole(ctx, base.Tail.Sequence) })
	group.Go(func() error {
		return q.cluster.Watch(ctx, intake.Round{
			Base: picture, Reached: on.reached, Cause: from.cause, Logger: logr.FromSlogHandler(q.logger.Handler()),
			Metrics: intake.Metrics{Every: q.cfg.MetricsInterval, Clock: q.deps.Clock, Logger: q.logger},
			Whole:   slices.ContainsFunc(q.cfg.Profiles, placement.ProfileConfig.ShowsObjects),
		}, facts)
	})
	group.Go(func() error {
		// An error here means that ctx has ended, which ends the round in its own way.
		if _, err := q.applied.await(ctx, func(s *state.Snapshot) bool { return open(s, epoch) }); err == nil {
			synced(ctx)
			q.snapshots.keep(ctx, epoch)
		}
		return nil
	})
	return group.Wait()
}

// open reports whether a state has progress in an epoch, which means that the end of the epoch's list is applied.
func open(s *state.Snapshot, epoch uint64) bool {
	_, ok := s.Position().Progress(events.KindPod)
	return ok && s.Position().Epoch == epoch
}

// send hands an input to the deciding goroutine. It reports false if ctx ended first.
func (q *Queue) send(ctx context.Context, in decide.Input) bool {
	select {
	case q.inputs <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

func (q *Queue) pause(ctx context.Context) {
	_ = sleep(ctx, q.deps.Clock, retryPause) // it fails when ctx ends, which the caller looks at
}

// sleep waits. It fails if ctx ends first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
