package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/nats-io/nats.go/jetstream"
)

var _ events.History = (*Log)(nil)

// About implements events.History. The server keeps an index of subjects, so that each record
// costs one question and none has to be read that does not match.
func (l *Log) About(ctx context.Context, name events.Stream, filter string, limit int) ([]events.Record, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	if err := events.CheckFilter(name, filter); err != nil {
		return nil, err
	}
	var found []events.Record
	for from := uint64(1); ; {
		m, err := l.streams[name].GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found, nil
		}
		if err != nil {
			return nil, l.explain(fmt.Errorf("jetstream: records of stream %s about %s: %w", name, filter, err))
		}
		record := events.Record{
			Message:  events.Message{Subject: m.Subject, Header: events.Header{}},
			Sequence: m.Sequence, Time: m.Time,
		}
		for key, values := range m.Header {
			if len(values) > 0 && !strings.HasPrefix(key, protocolPrefix) {
				record.Header[key] = values[0]
			}
		}
		if len(m.Data) > 0 {
			record.Data = m.Data
		}
		found = append(found, record)
		if limit > 0 && len(found) > limit {
			found = found[1:]
		}
		from = m.Sequence + 1
	}
}
