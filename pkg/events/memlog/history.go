package memlog

import (
	"context"

	"github.com/berth-scheduler/berth/pkg/events"
)

var _ events.History = (*Log)(nil)

// About implements events.History.
func (l *Log) About(_ context.Context, name events.Stream, q events.Query, limit int) ([]events.Record, error) {
	if err := events.CheckFilter(name, q.Filter); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, events.ErrClosed
	}
	var found []events.Record
	for _, r := range l.mu.streams[name].records {
		if q.Finds(r) {
			found = append(found, r)
		}
	}
	if limit > 0 && len(found) > limit {
		found = found[len(found)-limit:]
	}
	return found, nil
}
