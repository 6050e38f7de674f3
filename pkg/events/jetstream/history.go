package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

var _ eventlog.History = (*Log)(nil)

// fewSubjects bounds the subjects that are read one by one.
const fewSubjects = 32

// About implements eventlog.History. For each subject the server knows how many records it has, and where the first
// and the last of them are. To find those in between, and the next one of a filter with wildcards, it searches
// through everything that was written in between. So About reads subjects one by one, their ends first; if many
// subjects match, it reads the records in stream order. Frames of several records are found by the hashes in their
// headers (framesAbout).
func (l *Log) About(ctx context.Context, name eventlog.Stream, q eventlog.Query, limit int) ([]eventlog.Record, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	if err := events.CheckFilter(name, q.Filter); err != nil {
		return nil, err
	}
	in := search{js: l.js, stream: l.streams[name]}
	found, err := in.about(ctx, q.Filter)
	if err == nil && canFrame(name) {
		var more []eventlog.Record
		if more, err = in.framesAbout(ctx, q); len(more) > 0 {
			found = append(found, more...)
			slices.SortStableFunc(found, func(a, b eventlog.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
		}
	}
	if err != nil {
		return nil, l.explain(fmt.Errorf("jetstream: records of stream %s about %s: %w", name, q.Filter, err))
	}
	found = slices.DeleteFunc(found, func(r eventlog.Record) bool { return !q.Finds(r) })
	if limit > 0 && len(found) > limit {
		found = found[len(found)-limit:]
	}
	return found, nil
}

// search is a search in one stream.
type search struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

// framesAbout returns the records of the frames that may have some that a query selects, and whose subject its filter
// does not match. It reads the headers of all frames of several records, and then those frames of which the header says
// that they may have a record about the object.
func (s search) framesAbout(ctx context.Context, q eventlog.Query) ([]eventlog.Record, error) {
	filters := frame.Filters(q.Filter)
	if len(filters) == 0 {
		return nil, nil
	}
	sequences, err := s.scan(ctx, filters, func(h nats.Header) bool {
		return frame.MayHave(h.Get(frame.HeaderObjects), q.UID)
	})
	if err != nil {
		return nil, err
	}
	var found []eventlog.Record
	for _, sequence := range sequences {
		m, err := s.stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		found = append(found, s.records(m)...)
	}
	return found, nil
}

// scan returns the sequences of the messages that match one of some filters, and whose header is wanted. It ends at the
// end of the stream as of its beginning.
func (s search) scan(
	ctx context.Context, filters []string, wanted func(nats.Header) bool,
) (sequences []uint64, err error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	consumer, err := s.js.OrderedConsumer(ctx, info.Config.Name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: filters, HeadersOnly: true,
		InactiveThreshold: consumerTTL, MaxResetAttempts: resetAttempts,
	})
	if err != nil {
		return nil, err
	}
	if found := consumer.CachedInfo(); found == nil || found.NumPending == 0 {
		return nil, nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(scanAhead))
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for {
		m, err := nextOf(ctx, messages)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			// Retention may have deleted what was to come.
			if found, err := consumer.Info(ctx); err != nil || found.NumPending == 0 {
				return sequences, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if wanted(m.Headers()) {
			sequences = append(sequences, meta.Sequence.Stream)
		}
		if meta.NumPending == 0 || meta.Sequence.Stream >= info.State.LastSeq {
			return sequences, nil
		}
	}
}

// nextOf returns the next message, or context.DeadlineExceeded if there is none for a while.
func nextOf(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, scanPatience)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

// scanPatience is how long a scan waits for a message before it asks whether there is one.
const scanPatience = 2 * time.Second

// scanAhead is how many headers a scan requests in advance.
const scanAhead = 8192

// about returns all records whose subjects match a filter, in stream order.
func (s search) about(ctx context.Context, filter string) ([]eventlog.Record, error) {
	subjects, err := s.subjects(ctx, filter)
	if err != nil || len(subjects) == 0 {
		return nil, err
	}
	if len(subjects) > fewSubjects {
		return s.following(ctx, filter, 1, 0)
	}
	lasts := map[string][]eventlog.Record{}
	for subject := range subjects {
		m, err := s.stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		lasts[subject] = s.records(m)
	}
	// Counted again after that, because of records that arrived in between: too many are left out below, too few
	// would leave a gap.
	if subjects, err = s.subjects(ctx, filter); err != nil {
		return nil, err
	}
	var found []eventlog.Record
	for subject, last := range lasts {
		found = append(found, last...)
		most := int(subjects[subject]) - 1
		if most < 1 {
			continue
		}
		before, err := s.following(ctx, subject, 1, most)
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(before,
			func(r eventlog.Record) bool { return r.Sequence >= last[0].Sequence })...)
	}
	slices.SortStableFunc(found, func(a, b eventlog.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return found, nil
}

// subjects returns those that match a filter, with the number of their records. The server keeps these numbers in
// memory, so the question costs no read of records.
func (s search) subjects(ctx context.Context, filter string) (map[string]uint64, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// following reads what matches a filter from a sequence on, at most that many messages if most is positive.
func (s search) following(
	ctx context.Context, filter string, from uint64, most int,
) (found []eventlog.Record, err error) {
	for n := 0; most <= 0 || n < most; n++ {
		m, err := s.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, s.records(m)...)
		from = m.Sequence + 1
	}
	return found, nil
}

// records returns the records of a message, as decode does.
func (s search) records(m *jetstream.RawStreamMsg) []eventlog.Record {
	own := 0
	if s.stream.CachedInfo().Config.AllowDirect {
		own = 1 // this message is such an answer, too
	}
	return decode(m.Header, own, eventlog.Record{
		Message: eventlog.Message{Subject: m.Subject, Data: m.Data}, Sequence: m.Sequence, Time: m.Time,
	})
}
