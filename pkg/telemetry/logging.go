package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/klog/v2"
)

// Formats of the log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// klogDebug is klog's verbosity at debug level: what its libraries' authors mean for
// debugging. At other levels it is klog's default, 0.
const klogDebug = "4"

// ParseLevel reads debug, info, warn or error.
func ParseLevel(text string) (slog.Level, error) {
	switch strings.ToLower(text) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("telemetry: log level is %q, want debug, info, warn or error", text)
}

// NewLogger returns a logger that writes to w in FormatText or FormatJSON.
func NewLogger(w io.Writer, format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case FormatText:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("telemetry: log format is %q, want %s or %s", format, FormatText, FormatJSON)
}

// Logger returns the logger of the process, to standard error, and makes it the default of
// slog and the destination of klog. Call it once, before anything logs.
func Logger(format string, level slog.Level) (*slog.Logger, error) {
	logger, err := NewLogger(os.Stderr, format, level)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(logger)
	RedirectKlog(logger)
	if level <= slog.LevelDebug {
		var verbosity klog.Level
		if err := verbosity.Set(klogDebug); err != nil {
			return nil, err
		}
	}
	return logger, nil
}

// RedirectKlog leads everything that is logged through klog into logger. Not safe while klog
// is in use.
func RedirectKlog(logger *slog.Logger) { klog.SetSlogLogger(logger) }
