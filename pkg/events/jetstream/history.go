package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

var _ eventlog.History = (*Log)(nil)

// fewSubjects bounds the subjects that are read one by one.
const fewSubjects = 32

// About implements eventlog.History. For each subject the server knows how many records it has, and where the first
// and the last of them are. To find those in between, and the next one of a filter with wildcards, it searches
// through everything that was written in between. So About reads subjects one by one, their ends first; if many
// subjects match, it reads the records in stream order.
func (l *Log) About(ctx context.Context, name eventlog.Stream, q eventlog.Query, limit int) ([]eventlog.Record, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	if err := events.CheckFilter(name, q.Filter); err != nil {
		return nil, err
	}
	found, err := l.about(ctx, name, q.Filter)
	if err != nil {
		return nil, l.explain(fmt.Errorf("jetstream: records of stream %s about %s: %w", name, q.Filter, err))
	}
	found = slices.DeleteFunc(found, func(r eventlog.Record) bool { return !q.Finds(r) })
	if limit > 0 && len(found) > limit {
		found = found[len(found)-limit:]
	}
	return found, nil
}

// about returns all records whose subjects match a filter, in stream order.
func (l *Log) about(ctx context.Context, name eventlog.Stream, filter string) ([]eventlog.Record, error) {
	subjects, err := l.subjects(ctx, name, filter)
	if err != nil || len(subjects) == 0 {
		return nil, err
	}
	if len(subjects) > fewSubjects {
		return l.following(ctx, name, filter, 1, 0)
	}
	var lasts []eventlog.Record
	for subject := range subjects {
		m, err := l.streams[name].GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		lasts = append(lasts, l.toRecord(name, m))
	}
	// Counted again after that, because of records that arrived in between: too many are left out below, too few
	// would leave a gap.
	if subjects, err = l.subjects(ctx, name, filter); err != nil {
		return nil, err
	}
	found := slices.Clone(lasts)
	for _, last := range lasts {
		most := int(subjects[last.Subject]) - 1
		if most < 1 {
			continue
		}
		before, err := l.following(ctx, name, last.Subject, 1, most)
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(before,
			func(r eventlog.Record) bool { return r.Sequence >= last.Sequence })...)
	}
	slices.SortFunc(found, func(a, b eventlog.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return found, nil
}

// subjects returns those that match a filter, with the number of their records. The server keeps these numbers in
// memory, so the question costs no read of records.
func (l *Log) subjects(ctx context.Context, name eventlog.Stream, filter string) (map[string]uint64, error) {
	info, err := l.streams[name].Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// following reads what matches a filter from a sequence on, at most that many records if most is positive.
func (l *Log) following(
	ctx context.Context, name eventlog.Stream, filter string, from uint64, most int,
) (found []eventlog.Record, err error) {
	for most <= 0 || len(found) < most {
		m, err := l.streams[name].GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, l.toRecord(name, m))
		from = m.Sequence + 1
	}
	return found, nil
}

// toRecord returns a message without the headers of the server's protocol. Of an answer of the server that was
// stored, it keeps neither header nor data.
func (l *Log) toRecord(name eventlog.Stream, m *jetstream.RawStreamMsg) eventlog.Record {
	record := eventlog.Record{
		Message:  eventlog.Message{Subject: m.Subject, Header: eventlog.Header{}},
		Sequence: m.Sequence, Time: m.Time,
	}
	own := 0
	if l.streams[name].CachedInfo().Config.AllowDirect {
		own = 1 // this message is such an answer, too
	}
	if isAnswer(m.Header, own) {
		return record
	}
	record.Header = decodeHeader(m.Header)
	if len(m.Data) > 0 {
		record.Data = m.Data
	}
	return record
}
