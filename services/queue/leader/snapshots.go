package leader

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/applied"
	"github.com/berth-scheduler/berth/services/queue/commit"
)

// snapshotCheck is how often the leader checks whether a snapshot is due.
const snapshotCheck = time.Second

// snapshots stores the state of the facts as a leader has applied it.
type snapshots struct {
	log     eventlog.Log
	store   eventlog.Snapshots
	clock   clock.WithTicker
	logger  *slog.Logger
	applied *applied.Facts
	// every and interval are after how many facts, and after how long, a snapshot is due. An interval without any fact
	// needs no snapshot.
	every    uint64
	interval time.Duration
}

// run stores the state of an epoch at once, again whenever every or interval has been
// reached, and once more when ctx ends. The first one replaces any snapshot that stands for facts the log has lost.
// If a snapshot cannot be stored, the next check tries again; meanwhile readers start from an older one.
func (k *snapshots) run(ctx context.Context, epoch uint64) {
	ticker := k.clock.NewTicker(snapshotCheck)
	defer ticker.Stop()
	var stored, counted uint64
	var at time.Time
	for {
		now := k.clock.Now()
		s := k.applied.Snapshot()
		sequence := s.Position().Sequence
		if s.Applied() < counted {
			counted = 0 // another store
		}
		due := stored == 0 || s.Applied()-counted >= k.every ||
			sequence > stored && now.Sub(at) >= k.interval
		if inEpoch(s, epoch) && due && k.put(ctx, s) {
			stored, at = sequence, now
			counted = s.Applied()
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			k.putLast(ctx, epoch, stored)
			return
		}
	}
}

// putLast stores what has been applied since the last snapshot, for a quick start.
func (k *snapshots) putLast(ctx context.Context, epoch, stored uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if s := k.applied.Snapshot(); inEpoch(s, epoch) && s.Position().Sequence > stored {
		k.put(ctx, s)
	}
}

// put stores one snapshot, unless the log has lost the facts that it stands for.
func (k *snapshots) put(ctx context.Context, s *state.Snapshot) bool {
	if s.Partial() {
		return false // a queue of a later version makes complete snapshots
	}
	data, sequence, err := s.Marshal()
	if err == nil {
		err = k.write(ctx, s.Position(), data)
	}
	if err != nil {
		k.logger.Warn("could not store a snapshot of the facts", "sequence", sequence, telemetry.KeyError, err)
		return false
	}
	k.logger.Debug("stored a snapshot of the facts", "sequence", sequence, "bytes", len(data))
	return true
}

func (k *snapshots) write(ctx context.Context, p state.Position, data []byte) error {
	if err := commit.Stands(ctx, k.log, p); err != nil {
		return err
	}
	return k.store.Put(ctx, eventlog.Facts, p.Sequence, data)
}

// inEpoch reports whether a state has progress in an epoch, which means that the end of the epoch's list is applied.
func inEpoch(s *state.Snapshot, epoch uint64) bool {
	_, ok := s.Position().Progress(events.KindPod)
	return ok && s.Position().Epoch == epoch
}
