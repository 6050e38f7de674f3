package queue

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/internal/commit"
)

// snapshotCheck is how often the leader checks whether a snapshot is due.
const snapshotCheck = time.Second

// keepSnapshots stores the state of an epoch at once, again whenever SnapshotEvery or SnapshotInterval has been
// reached, and once more when ctx ends. The first one replaces any snapshot that stands for facts the log has lost.
// If a snapshot cannot be stored, the next check tries again; meanwhile readers start from an older one.
func (q *Queue) keepSnapshots(ctx context.Context, epoch uint64) {
	ticker := q.deps.Clock.NewTicker(snapshotCheck)
	defer ticker.Stop()
	var stored uint64
	var at time.Time
	for {
		now := q.deps.Clock.Now()
		s, _ := q.applied.snapshot()
		sequence := s.Position().Sequence
		due := stored == 0 || sequence-stored >= q.cfg.SnapshotEvery ||
			sequence > stored && now.Sub(at) >= q.cfg.SnapshotInterval
		if open(s, epoch) && due && q.store(ctx, s) {
			stored, at = sequence, now
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			q.lastSnapshot(ctx, epoch, stored)
			return
		}
	}
}

// lastSnapshot stores what has been applied since the last snapshot, for a quick start.
func (q *Queue) lastSnapshot(ctx context.Context, epoch, stored uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if s, _ := q.applied.snapshot(); open(s, epoch) && s.Position().Sequence > stored {
		q.store(ctx, s)
	}
}

// store stores one snapshot, unless the log has lost the facts that it stands for.
func (q *Queue) store(ctx context.Context, s *state.Snapshot) bool {
	if s.Partial() {
		return false // a queue of a later version makes complete snapshots
	}
	data, sequence, err := s.Marshal()
	if err == nil {
		err = q.put(ctx, s.Position(), data)
	}
	if err != nil {
		q.logger.Warn("could not store a snapshot of the facts", "sequence", sequence, telemetry.KeyError, err)
		return false
	}
	q.logger.Debug("stored a snapshot of the facts", "sequence", sequence, "bytes", len(data))
	return true
}

func (q *Queue) put(ctx context.Context, p state.Position, data []byte) error {
	if err := commit.Stands(ctx, q.deps.Log, p); err != nil {
		return err
	}
	return q.deps.Snapshots.Put(ctx, events.Facts, p.Sequence, data)
}
