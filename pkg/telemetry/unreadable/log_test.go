package unreadable_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
)

// TestNotesAreBounded checks that each unreadable record is logged with the attributes needed to find it, and that
// a stream full of them does not fill the disk.
func TestNotesAreBounded(t *testing.T) {
	var text strings.Builder
	now := time.Unix(1000, 0)
	logger := slog.New(slog.NewTextHandler(&text, nil))
	n := unreadable.New("queue", eventlog.Decisions, logger, func() time.Time { return now })
	r := eventlog.Record{Message: eventlog.Message{Subject: "decisions.x.placed", Data: []byte("12345")}, Sequence: 7}
	for range 1000 {
		n.Record(r, errors.New("poison"))
	}
	lines := strings.Count(text.String(), "\n")
	if lines < 1 || lines > 20 {
		t.Errorf("%d lines of 1000 records, want a few", lines)
	}
	for _, want := range []string{
		"stream=DECISIONS", "sequence=7", "subject=decisions.x.placed", "bytes=5", "error=poison",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, text.String())
		}
	}
	text.Reset()
	now = now.Add(time.Minute)
	n.Record(r, errors.New("poison"))
	if got := text.String(); !strings.Contains(got, "lines=990") || !strings.Contains(got, "sequence=7") {
		t.Errorf("a minute later the log says:\n%s", got)
	}
}
