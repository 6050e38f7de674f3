package memlog_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// model is the simple counterpart: a slice of messages and the number of those trimmed.
type model struct {
	subjects []string // of sequences 1, 2, …
	trimmed  int
}

// reading is one reader and the model's knowledge of it.
type reading struct {
	reader eventlog.Reader
	seen   []string // subjects of sequences from..from+len-1 as the reader returned them
	from   int
}

// intact reports whether the log still holds everything that the reader has returned, and the record that it must
// read next has not been trimmed.
func (m *model) intact(r *reading) bool {
	next := r.from + len(r.seen)
	return next > m.trimmed && next <= len(m.subjects)+1
}

// TestModel: under any sequence of appends, fenced or not, trims and lost tails, the log has the content of the
// model, and a reader returns exactly that or reports a gap.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.WithoutCancel(t.Context())
		log, m := memlog.New(memlog.Options{ReadBatch: rapid.IntRange(1, 4).Draw(t, "read batch")}), &model{}
		var current *reading
		lost := false // the current reader has seen what is lost
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { appendBoth(ctx, t, log, m) },
			"trim": func(t *rapid.T) {
				first := rapid.IntRange(1, len(m.subjects)+2).Draw(t, "first")
				log.Trim(eventlog.Facts, uint64(first))
				m.trimmed = max(m.trimmed, min(first-1, len(m.subjects)))
			},
			"lose tail": func(t *rapid.T) {
				after := rapid.IntRange(m.trimmed, len(m.subjects)+1).Draw(t, "after")
				log.LoseTail(eventlog.Facts, uint64(after))
				lost = lost || current != nil && current.from+len(current.seen) > after+1
				m.subjects = m.subjects[:min(after, len(m.subjects))]
			},
			"open": func(t *rapid.T) {
				from := rapid.IntRange(0, len(m.subjects)+3).Draw(t, "from")
				r, err := log.Read(ctx, eventlog.Facts, uint64(from))
				if valid := from > m.trimmed && from <= len(m.subjects)+1; valid != (err == nil) {
					t.Fatalf("read from %d: %v; %d trimmed, last %d", from, err, m.trimmed, len(m.subjects))
				}
				if err == nil {
					current, lost = &reading{reader: r, from: from}, false
				}
			},
			"next": func(t *rapid.T) {
				if current != nil {
					nextBoth(ctx, t, m, current, lost)
				}
			},
			"": func(t *rapid.T) {
				if last, err := log.Last(ctx, eventlog.Facts); err != nil || last != uint64(len(m.subjects)) {
					t.Fatalf("last is %d, %v, want %d", last, err, len(m.subjects))
				}
			},
		})
	})
}

func appendBoth(ctx context.Context, t *rapid.T, log *memlog.Log, m *model) {
	expect := eventlog.AnySequence
	holds := true
	if rapid.Bool().Draw(t, "fenced") {
		last := len(m.subjects)
		expect = eventlog.Tail{Sequence: uint64(max(0, last+rapid.IntRange(-1, 1).Draw(t, "off by")))}
		holds = expect.Sequence == uint64(last)
		if last > 0 && rapid.Bool().Draw(t, "by subject") {
			expect.Subject = m.subjects[last-1-rapid.IntRange(0, min(last-1, 2)).Draw(t, "subject of")]
			holds = holds && last > m.trimmed && expect.Subject == m.subjects[last-1]
		}
	}
	var msgs []eventlog.Message
	for range rapid.IntRange(1, 5).Draw(t, "messages") {
		msgs = append(msgs, eventlog.Message{Subject: "facts." + rapid.StringMatching(`[a-z]{4}`).Draw(t, "subject")})
	}
	last, err := log.Append(ctx, eventlog.Facts, expect, msgs)
	var wrong *eventlog.ErrWrongSequence
	if !holds {
		if !errors.As(err, &wrong) || wrong.Actual != uint64(len(m.subjects)) {
			t.Fatalf("append behind %v: %v, last is %d", expect, err, len(m.subjects))
		}
		return
	}
	for _, msg := range msgs {
		m.subjects = append(m.subjects, msg.Subject)
	}
	if err != nil || last != uint64(len(m.subjects)) {
		t.Fatalf("append: %d, %v, want %d", last, err, len(m.subjects))
	}
}

func nextBoth(ctx context.Context, t *rapid.T, m *model, r *reading, lost bool) {
	next := r.from + len(r.seen)
	if m.intact(r) && !lost && next == len(m.subjects)+1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel() // nothing to read: Next would block
	}
	records, err := r.reader.Next(ctx)
	var gap *eventlog.ErrGap
	switch {
	case lost || !m.intact(r):
		if !errors.As(err, &gap) {
			t.Fatalf("reader at %d got %d records and %v, want a gap", next, len(records), err)
		}
	case next == len(m.subjects)+1:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("reader at the end got %v", err)
		}
	case err != nil || len(records) == 0:
		t.Fatalf("reader at %d of %d got %d records and %v", next, len(m.subjects), len(records), err)
	}
	for i, record := range records {
		if record.Sequence != uint64(next+i) || record.Subject != m.subjects[next+i-1] {
			t.Fatalf("record %d is %d %s, want %s", next+i, record.Sequence, record.Subject, m.subjects[next+i-1])
		}
		r.seen = append(r.seen, record.Subject)
	}
}
