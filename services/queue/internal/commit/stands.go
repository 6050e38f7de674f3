package commit

import (
	"context"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Stands says whether a position is one of the log's history as it is now: *DivergedError if
// the log has lost what was applied up to there, even if it has grown past it again since.
func Stands(ctx context.Context, log events.Log, p state.Position) error {
	last, err := log.Last(ctx, events.Facts)
	if err != nil {
		return err
	}
	if last < p.Sequence {
		return &DivergedError{Expected: p.Sequence, Actual: last}
	}
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	reader, err := log.Read(ctx, events.Facts, p.Sequence)
	if err != nil {
		return err
	}
	defer reader.Close()
	records, err := reader.Next(ctx)
	if err != nil {
		return err
	}
	fact, err := events.DecodeFact(records[0])
	if err != nil {
		return err
	}
	if fact.Epoch != p.Epoch {
		return &DivergedError{Expected: p.Sequence, Actual: last}
	}
	return nil
}
