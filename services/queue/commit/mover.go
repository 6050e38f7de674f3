package commit

import (
	"context"
	"log/slog"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
)

const (
	// moveBuffer is how many rounds of moves may wait for the ledger. The core waits until one round shows before it
	// decides the next, so more than one waits only while leaders change.
	moveBuffer = 4
	// moveTimeout bounds one attempt to write to the ledger.
	moveTimeout = 5 * time.Second
)

// Mover records in the ledger which member should hold partitions. A request that cannot be written is dropped and
// logged: if it still helps, the core decides it again.
type Mover struct {
	store  ledger.Store
	logger *slog.Logger
	moves  chan []balance.Move
}

// NewMover returns a mover; Run must be called for it to write anything.
func NewMover(store ledger.Store, logger *slog.Logger) *Mover {
	return &Mover{store: store, logger: logger, moves: make(chan []balance.Move, moveBuffer)}
}

// Move enqueues moves that belong together, at most ledger.MaxTxnOps, each of a different partition. It never blocks.
func (m *Mover) Move(moves []balance.Move) {
	select {
	case m.moves <- moves:
	default:
		m.logger.Warn("partition moves dropped: too many are waiting for the ledger", "partitions", len(moves))
	}
}

// Run writes the enqueued moves until ctx ends, and then returns nil.
func (m *Mover) Run(ctx context.Context) error {
	for {
		select {
		case moves := <-m.moves:
			if err := m.write(ctx, moves); err != nil && ctx.Err() == nil {
				m.logger.Warn("partition moves failed; retrying", "partitions", len(moves), telemetry.KeyError, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// write commits one round of moves as one transaction without compares: requests are advice, and the newest one counts.
func (m *Mover) write(ctx context.Context, moves []balance.Move) error {
	wants := make(map[int32]string, len(moves))
	for _, move := range moves {
		wants[move.Partition] = move.To
	}
	txn, err := roster.WantPartitions(wants)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	if _, err := m.store.Commit(ctx, txn); err != nil {
		return err
	}
	for _, move := range moves {
		telemetry.PartitionMoved(string(move.Reason))
		m.logger.Info("moving partition", "partition", move.Partition, "from", move.From, "to", move.To,
			"reason", move.Reason, "waiting", move.Pods)
	}
	return nil
}
