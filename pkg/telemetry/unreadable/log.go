package unreadable

import (
	"log/slog"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// window is the period over which lines are counted, and maxLines the number of lines written per window: a
	// stream may be full of unreadable records.
	window   = time.Minute
	maxLines = 10
)

// Log logs the unreadable records of one stream in one service. It is safe for concurrent use.
type Log struct {
	service string
	stream  eventlog.Stream
	logger  *slog.Logger
	now     func() time.Time
	mu      struct {
		sync.Mutex
		// since is the beginning of the current window, lines the number of lines that it has had.
		since time.Time
		lines int
		// left is the number of lines that were not written.
		left int
	}
}

// New returns the notes of a service about a stream. now is its clock.
func New(service string, stream eventlog.Stream, logger *slog.Logger, now func() time.Time) *Log {
	return &Log{service: service, stream: stream, logger: logger, now: now}
}

// Record notes a record that is left out, and why. Sequence, index in the frame and subject are enough to find the
// record in the log:
//
//	record of the log cannot be decoded; skipped  stream=DECISIONS sequence=7 index=0 subject=… bytes=5 error=…
func (n *Log) Record(r eventlog.Record, err error) {
	n.Write("record of the log cannot be decoded; skipped",
		"sequence", r.Sequence, "index", r.Index, "subject", r.Subject, "bytes", r.Size(), telemetry.KeyError, err)
}

// Write counts something unreadable, and logs a line about it unless the current window has reached its limit.
func (n *Log) Write(message string, attributes ...any) {
	telemetry.Unreadable(n.service, n.stream)
	left, write := n.line()
	if left > 0 {
		n.logger.Error("more undecodable records were skipped than logged", "stream", n.stream, "lines", left)
	}
	if write {
		n.logger.Error(message, append([]any{"stream", n.stream}, attributes...)...)
	}
}

// line reports whether a line may be written now, and how many were left out in the window before, when a new one
// begins.
func (n *Log) line() (left int, write bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.now(); now.Sub(n.mu.since) >= window {
		left = n.mu.left
		n.mu.since = now
		n.mu.lines = 0
		n.mu.left = 0
	}
	if n.mu.lines >= maxLines {
		n.mu.left++
		return left, false
	}
	n.mu.lines++
	return left, true
}
