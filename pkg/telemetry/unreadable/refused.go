package unreadable

import (
	"errors"
	"log/slog"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// WithoutRefused returns the rest of an unfenced append after err. If the log can never accept one of the messages,
// that message is counted, logged and left out, and the caller appends the others again. refused is false for any
// other error: its outcome is unknown.
func WithoutRefused(
	service string, s eventlog.Stream, logger *slog.Logger, msgs []eventlog.Message, err error,
) (rest []eventlog.Message, refused bool) {
	rest, refused = eventlog.WithoutRefused(msgs, err)
	if !refused {
		return msgs, false
	}
	var why *eventlog.ErrRefused
	attributes := []any{"stream", s, telemetry.KeyError, err}
	if errors.As(err, &why) && why.Message >= 0 && why.Message < len(msgs) {
		h := msgs[why.Message].Header
		attributes = append(attributes, "kind", h.Get(eventlog.HeaderKind),
			"namespace", h.Get(eventlog.HeaderNamespace), "name", h.Get(eventlog.HeaderName))
	}
	telemetry.Refused(service, s, len(msgs)-len(rest))
	logger.Error("message rejected by the log; dropped", attributes...)
	return rest, true
}
