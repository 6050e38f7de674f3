package pause

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Pause is the value of Key. It records who has paused the descheduler, and why.
type Pause struct {
	// Since is the time by the clock of the operator who paused, to the millisecond.
	Since time.Time
	// By and Reason are for human readers; either may be empty.
	By, Reason string
}

// String returns text such as "since 2026-01-02T15:04:05Z by alice: upgrade".
func (p Pause) String() string {
	text := "since " + p.Since.UTC().Format(time.RFC3339)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// Begin pauses every descheduler of this ledger until End ends the pause. It replaces a
// pause that is in force. Safe to repeat.
func Begin(ctx context.Context, store ledger.Store, p Pause) error {
	value, err := codec.Marshal(&ledgerpb.Pause{
		Version: ledger.SchemaVersion, SinceMs: p.Since.UnixMilli(), By: p.By, Reason: p.Reason,
	})
	if err != nil {
		return fmt.Errorf("ledger: pause: %w", err)
	}
	if _, err := store.Commit(ctx, ledger.Txn{Puts: []ledger.Put{{Key: Key, Value: value}}}); err != nil {
		return fmt.Errorf("ledger: pause: %w", err)
	}
	return nil
}

// End ends a pause; without one it changes nothing. Safe to repeat.
func End(ctx context.Context, store ledger.Store) error {
	if _, err := store.Commit(ctx, ledger.Txn{Deletes: []string{Key}}); err != nil {
		return fmt.Errorf("ledger: resume: %w", err)
	}
	return nil
}

// Current reads the pause that is in force, nil if there is none, and the revision at which that was true
// (linearizable).
func Current(ctx context.Context, store ledger.Store) (p *Pause, revision int64, err error) {
	kvs, revision, err := store.List(ctx, Key)
	if err != nil {
		return nil, 0, fmt.Errorf("ledger: pause: %w", err)
	}
	for _, kv := range kvs {
		if kv.Key != Key {
			continue
		}
		if p, err = Decode(kv.Value); err != nil {
			return nil, 0, err
		}
	}
	return p, revision, nil
}

// Decode decodes the value of Key. It refuses values of a later schema: what such a pause means is not known here.
func Decode(value []byte) (*Pause, error) {
	var m ledgerpb.Pause
	if err := codec.Unmarshal(value, &m, m.GetVersion); err != nil {
		return nil, fmt.Errorf("ledger: key %s: %w", Key, err)
	}
	return &Pause{Since: time.UnixMilli(m.GetSinceMs()), By: m.GetBy(), Reason: m.GetReason()}, nil
}

// Key holds a Pause while the descheduler must not request evictions. Only etcd's root writes it.
const Key = "pause/descheduler"
