package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Pause records who has paused the descheduler, and why.
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

// PauseDescheduling pauses every descheduler of this ledger until ResumeDescheduling ends the pause. It replaces a
// pause that is in force. Safe to repeat.
func PauseDescheduling(ctx context.Context, store Store, p Pause) error {
	value, err := marshal(&ledgerpb.Pause{
		Version: SchemaVersion, SinceMs: p.Since.UnixMilli(), By: p.By, Reason: p.Reason,
	})
	if err != nil {
		return fmt.Errorf("ledger: pause: %w", err)
	}
	if _, err := store.Commit(ctx, Txn{Puts: []Put{{Key: KeyPause, Value: value}}}); err != nil {
		return fmt.Errorf("ledger: pause: %w", err)
	}
	return nil
}

// ResumeDescheduling ends a pause; without one it changes nothing. Safe to repeat.
func ResumeDescheduling(ctx context.Context, store Store) error {
	if _, err := store.Commit(ctx, Txn{Deletes: []string{KeyPause}}); err != nil {
		return fmt.Errorf("ledger: resume: %w", err)
	}
	return nil
}

// DeschedulingPause reads the pause that is in force, nil if there is none, and the revision at which that was true
// (linearizable).
func DeschedulingPause(ctx context.Context, store Store) (p *Pause, revision int64, err error) {
	kvs, revision, err := store.List(ctx, KeyPause)
	if err != nil {
		return nil, 0, fmt.Errorf("ledger: pause: %w", err)
	}
	for _, kv := range kvs {
		if kv.Key != KeyPause {
			continue
		}
		if p, err = DecodePause(kv.Value); err != nil {
			return nil, 0, err
		}
	}
	return p, revision, nil
}

// DecodePause decodes the value of KeyPause.
func DecodePause(value []byte) (*Pause, error) {
	var m ledgerpb.Pause
	if err := unmarshal(value, &m, m.GetVersion); err != nil {
		return nil, fmt.Errorf("ledger: key %s: %w", KeyPause, err)
	}
	return &Pause{Since: time.UnixMilli(m.GetSinceMs()), By: m.GetBy(), Reason: m.GetReason()}, nil
}
