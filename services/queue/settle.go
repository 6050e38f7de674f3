package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/commit"
)

const (
	// settleCheck is how often the log is asked for its end while the picture of it does
	// not match.
	settleCheck = 500 * time.Millisecond
	// stallLimit is how long a picture that is not at the end of the log may stay as it is
	// before a leader takes the log for one that cannot be followed. A follower that can read
	// moves far more often, and looks every five seconds whether what it has read still stands.
	stallLimit = 30 * time.Second
	// stallCheck is how often that is looked at while a round runs.
	stallCheck = 5 * time.Second
)

var (
	errNotFollowed = errors.New("queue: the log of facts cannot be followed to its end")
	// errClosed: a member doubts that the ledger is what it has been. The next round begins it anew.
	errClosed = errors.New("queue: the ledger was closed")
	// errHole: a fact of the log cannot be read, so that no reader has a whole picture of what is behind it.
	errHole = errors.New("queue: a fact cannot be read")
)

// stall is how long a picture has not moved. The zero value has seen none.
type stall struct {
	at    uint64
	since time.Time
}

// lasts looks once more where the picture is. What only starts again from the same place has
// not moved.
func (s *stall) lasts(p state.Position, now time.Time) time.Duration {
	if s.since.IsZero() || p.Sequence != s.at {
		s.at, s.since = p.Sequence, now
	}
	return now.Sub(s.since)
}

// settle returns the state at the very end of the log, and what a round behind it builds on.
// While the picture is ahead of the log, or of another history (a tail was lost), it waits until
// the follower has found that out and started anew. If the follower does not get there, because
// retention has cut the log and the snapshot stands for facts that are lost, it returns an
// empty state: the round then tells of everything. So it does when there is a fact that cannot be read.
func (q *Queue) settle(ctx context.Context) (*state.Snapshot, commit.Base, error) {
	var still stall
	for ctx.Err() == nil {
		picture, base, err := q.atTheEnd(ctx)
		if err == nil {
			return picture, base, nil
		}
		var elsewhere *commit.DivergedError
		switch {
		case !errors.As(err, &elsewhere) && !errors.Is(err, errHole):
			q.logger.Warn("the log of facts does not answer", "error", err)
			still = stall{}
		case errors.Is(err, errHole) || still.lasts(q.position(), q.deps.Clock.Now()) >= stallLimit:
			q.logger.Error("the log of facts cannot be followed to its end, telling everything anew", "error", err)
			if base, err = commit.Anew(ctx, q.deps.Log); err == nil {
				base.Epoch = max(base.Epoch, q.position().Epoch) // what stands there need not have one
				return state.New().Snapshot(), base, nil
			}
		}
		q.pause(ctx)
	}
	return nil, commit.Base{}, ctx.Err()
}

// followed returns errNotFollowed when the picture has long stood still somewhere else than at
// the end of the log, errClosed when somebody has closed the ledger, and nil when ctx ends.
func (q *Queue) followed(ctx context.Context) error {
	ticker := q.deps.Clock.NewTicker(stallCheck)
	defer ticker.Stop()
	var still stall
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		open := true
		if err := q.ask(ctx, func(l *loop) { open = l.holds.View().IsOpen() }); err == nil && !open {
			return errClosed
		}
		p := q.position()
		last, err := q.deps.Log.Last(ctx, events.Facts)
		if err != nil || last == p.Sequence {
			still = stall{}
			continue
		}
		if still.lasts(p, q.deps.Clock.Now()) >= stallLimit {
			return errNotFollowed
		}
	}
}

func (q *Queue) position() state.Position {
	s, _ := q.applied.snapshot()
	return s.Position()
}

// atTheEnd waits a little for the picture to stand at the end of the log. *commit.DivergedError
// says that it does not, or that it is a picture of another history, errHole that it lacks a fact
// or that what stands at the end is none.
func (q *Queue) atTheEnd(ctx context.Context) (*state.Snapshot, commit.Base, error) {
	last, err := q.deps.Log.Last(ctx, events.Facts)
	if err != nil {
		return nil, commit.Base{}, err
	}
	wait, cancel := context.WithTimeout(ctx, settleCheck)
	defer cancel()
	picture, err := q.applied.await(wait, func(s *state.Snapshot) bool { return s.Position().Sequence == last })
	if err != nil {
		return nil, commit.Base{}, &commit.DivergedError{Expected: q.position().Sequence, Actual: last}
	}
	if err := holeIn(picture); err != nil {
		return nil, commit.Base{}, err
	}
	base, err := commit.Behind(ctx, q.deps.Log, picture.Position())
	var undecodable *events.DecodeError
	if errors.As(err, &undecodable) { // the picture stands for another fact there, or begins behind it
		err = fmt.Errorf("%w: %w", errHole, err)
	}
	return picture, base, err
}

// holeIn is errHole, with what is wrong, for a picture that lacks a fact.
func holeIn(picture *state.Snapshot) error {
	if _, there := picture.Position().Hole(); !there {
		return nil
	}
	return fmt.Errorf("%w: %w", errHole, picture.Unreadable())
}

// whole returns errHole when a fact behind a sequence cannot be read, and nil when ctx ends.
func (q *Queue) whole(ctx context.Context, behind uint64) error {
	picture, err := q.applied.await(ctx, func(s *state.Snapshot) bool {
		at, there := s.Position().Hole()
		return there && at > behind
	})
	if err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	return holeIn(picture)
}
