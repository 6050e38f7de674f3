package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

var _ eventlog.History = (*Log)(nil)

// subjectsTimeout bounds a list of subjects. There is one for each frame of several records that the stream keeps,
// which may be some hundred thousand.
const subjectsTimeout = 30 * time.Second

// pageOverlap is how many subjects of a page are in the one before as well: more than retention deletes in the
// meantime.
const pageOverlap = 2000

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
// does not match. The server lists the subjects of all frames, and only those that may have the object are read.
func (s search) framesAbout(ctx context.Context, q eventlog.Query) (found []eventlog.Record, err error) {
	for _, filter := range frame.Filters(q.Filter) {
		if filter == q.Filter {
			continue
		}
		subjects, err := s.subjects(ctx, filter)
		if err != nil {
			return nil, err
		}
		for subject, n := range subjects {
			if !frame.MayHave(subject, q.UID) || eventlog.Matches(q.Filter, subject) {
				continue
			}
			records, err := s.following(ctx, subject, 1, int(n))
			if err != nil {
				return nil, err
			}
			found = append(found, records...)
		}
	}
	return found, nil
}

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
// memory, so the question costs no read of records. It answers in pages of a sorted list, as that is at the time of
// each page. Subjects that are added meanwhile may be missed. Pages overlap, so that the few that are deleted
// meanwhile do not shift others out of sight. The client's own paging is not used: it ends when it has as many
// subjects as there are, which is never the case if some are added to pages that it has read.
func (s search) subjects(ctx context.Context, filter string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, subjectsTimeout)
	defer cancel()
	found := map[string]uint64{}
	for offset := 0; ; {
		page, err := s.subjectsFrom(ctx, filter, offset)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, page.State.Subjects)
		n := len(page.State.Subjects)
		if n < page.Limit || n <= pageOverlap {
			return found, nil
		}
		offset += n - pageOverlap
	}
}

// subjectsPage is what the server answers about subjects
// (https://docs.nats.io/reference/reference-protocols/nats_api_reference,
// io.nats.jetstream.api.v1.stream_info_response).
type subjectsPage struct {
	Error *jetstream.APIError `json:"error"`
	Limit int                 `json:"limit"`
	State struct {
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// subjectsFrom returns one page of subjects.
func (s search) subjectsFrom(ctx context.Context, filter string, offset int) (page subjectsPage, err error) {
	request, err := json.Marshal(map[string]any{"subjects_filter": filter, "offset": offset})
	if err != nil {
		return page, err
	}
	name := jetstream.DefaultAPIPrefix + "STREAM.INFO." + s.stream.CachedInfo().Config.Name
	answer, err := s.js.Conn().RequestWithContext(ctx, name, request)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(answer.Data, &page); err != nil {
		return page, fmt.Errorf("answer to %s: %w", name, err)
	}
	if page.Error != nil {
		return page, page.Error
	}
	return page, nil
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
