package memlog

import (
	"context"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

var _ eventlog.History = (*Log)(nil)

// About implements eventlog.History by a scan of all records that are kept.
func (l *Log) About(_ context.Context, name eventlog.Stream, q eventlog.Query, limit int) ([]eventlog.Record, error) {
	if err := events.CheckFilter(name, q.Filter); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, eventlog.ErrClosed
	}
	var found []eventlog.Record
	for _, frame := range l.mu.streams[name].frames {
		for _, r := range frame {
			if q.Finds(r) {
				found = append(found, r)
			}
		}
	}
	if limit > 0 && len(found) > limit {
		found = found[len(found)-limit:]
	}
	return found, nil
}
