package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/applied"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/generation"
)

const (
	// settleCheck is how long to wait for the state to reach the end of the log before the log is asked for its end
	// again.
	settleCheck = 500 * time.Millisecond
	// stallLimit is how long a state that is not at the end of the log may stay unchanged before the leader concludes
	// that the log cannot be followed. A follower that can read advances far more often, and checks every five
	// seconds whether what it has read is still in the log.
	stallLimit = 30 * time.Second
	// stallCheck is how often a running round checks for a stall.
	stallCheck = 5 * time.Second
)

var (
	errNotFollowed = errors.New("queue: the log of facts cannot be followed to its end")
	// errClosed means that a member doubts the ledger and has closed it. The next round begins a new generation.
	errClosed = errors.New("queue: the ledger was closed")
	// errHole means that a fact of the log cannot be read, so that no reader has complete state behind it.
	errHole = errors.New("queue: a fact cannot be decoded")
)

// stall measures for how long the state has not advanced. The zero value has seen no state yet.
type stall struct {
	at    uint64
	since time.Time
}

// duration records the current position and returns for how long it has not changed. A follower that only restarts from
// the same position has not advanced.
func (s *stall) duration(p state.Position, now time.Time) time.Duration {
	if s.since.IsZero() || p.Sequence != s.at {
		s.at, s.since = p.Sequence, now
	}
	return now.Sub(s.since)
}

// logTail follows the end of the log of facts on behalf of a round: is the state there, and does it stay there? It is
// safe for concurrent use.
type logTail struct {
	log      eventlog.Log
	applied  *applied.Facts
	observer generation.Observer
	clock    clock.WithTicker
	logger   *slog.Logger
}

// settle returns the state at the very end of the log, and the base that the next round builds on. While the state is
// ahead of the log, or belongs to another history because a tail was lost, settle waits until the follower has
// noticed and started again. If the follower does not get there, because retention has cut the log and the snapshot
// stands for facts that are lost, settle returns an empty state, and the round publishes everything. The same happens
// if a fact cannot be read.
func (t *logTail) settle(ctx context.Context) (*state.Snapshot, commit.Base, error) {
	var still stall
	for ctx.Err() == nil {
		facts, base, err := t.atTheEnd(ctx)
		if err == nil {
			return facts, base, nil
		}
		var elsewhere *commit.DivergedError
		switch {
		case !errors.As(err, &elsewhere) && !errors.Is(err, errHole):
			t.logger.Warn("log of facts does not answer; retrying", telemetry.KeyError, err)
			still = stall{}
		case errors.Is(err, errHole) || still.duration(t.applied.Position(), t.clock.Now()) >= stallLimit:
			t.logger.Error("log of facts cannot be followed to its end; publishing all facts again", telemetry.KeyError, err)
			if base, err = commit.Anew(ctx, t.log); err == nil {
				base.Epoch = max(base.Epoch, t.applied.Position().Epoch) // the record at the end need not have an epoch
				return state.New().Snapshot(), base, nil
			}
		}
		pause(ctx, t.clock)
	}
	return nil, commit.Base{}, ctx.Err()
}

// watchProgress returns errNotFollowed when the state has stalled somewhere other than at the end of the log, errClosed
// when a member has closed the ledger, and nil when ctx ends.
func (t *logTail) watchProgress(ctx context.Context) error {
	ticker := t.clock.NewTicker(stallCheck)
	defer ticker.Stop()
	var still stall
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if view, err := t.observer.Observe(ctx); err == nil && !view.Open {
			return errClosed
		}
		p := t.applied.Position()
		last, err := t.log.Last(ctx, eventlog.Facts)
		if err != nil || last == p.Sequence {
			still = stall{}
			continue
		}
		if still.duration(p, t.clock.Now()) >= stallLimit {
			return errNotFollowed
		}
	}
}

// atTheEnd waits briefly for the state to reach the end of the log. It returns *commit.DivergedError if the state
// does not reach it or belongs to another history, and errHole if the state lacks a fact or the record at the end is
// not a fact.
func (t *logTail) atTheEnd(ctx context.Context) (*state.Snapshot, commit.Base, error) {
	last, err := t.log.Last(ctx, eventlog.Facts)
	if err != nil {
		return nil, commit.Base{}, err
	}
	wait, cancel := context.WithTimeout(ctx, settleCheck)
	defer cancel()
	facts, err := t.applied.Await(wait, func(s *state.Snapshot) bool { return s.Position().Sequence == last })
	if err != nil {
		return nil, commit.Base{}, &commit.DivergedError{Expected: t.applied.Position().Sequence, Actual: last}
	}
	if err := holeIn(facts); err != nil {
		return nil, commit.Base{}, err
	}
	base, err := commit.Behind(ctx, t.log, facts.Position())
	var undecodable *events.DecodeError
	if errors.As(err, &undecodable) { // the state has another fact there, or begins behind it
		err = fmt.Errorf("%w: %w", errHole, err)
	}
	return facts, base, err
}

// holeIn returns errHole, wrapped with the details, for a state that lacks a fact, and nil for any other.
func holeIn(facts *state.Snapshot) error {
	if _, there := facts.Position().Hole(); !there {
		return nil
	}
	return fmt.Errorf("%w: %w", errHole, facts.Unreadable())
}

// watchHole returns errHole when a fact behind a sequence cannot be read, and nil when ctx ends.
func (t *logTail) watchHole(ctx context.Context, behind uint64) error {
	facts, err := t.applied.Await(ctx, func(s *state.Snapshot) bool {
		at, there := s.Position().Hole()
		return there && at > behind
	})
	if err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	return holeIn(facts)
}
