package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// Formats of the log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// klogDebug is klog's verbosity at debug level: the one that klog's users mean for debugging. At other levels it is
// klog's default, 0.
const klogDebug = 4

// level is the level of the process's logger. It can change while the process runs: see SetLevel.
var level slog.LevelVar

// Keys that mean the same in every line of every service.
const (
	// KeyService and KeyMember name the service and member that wrote the line; every line of a service has them.
	KeyService = "service"
	KeyMember  = "member"
	// KeyPod is namespace/name, KeyNode a name.
	KeyPod  = "pod"
	KeyNode = "node"
	// KeyAttempt is the number of the attempt at a pod, KeyOutcome the outcome of an attempt.
	KeyAttempt = "attempt"
	KeyOutcome = "outcome"
	// KeyTook is a duration, KeyError the text of an error.
	KeyTook  = "took"
	KeyError = "error"
)

// ParseLevel parses debug, info, warn or error, in any case.
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

// NewLogger returns a logger that writes to w in FormatText or FormatJSON. It changes nothing in the process: see
// Logger.
func NewLogger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
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
func Logger(format string, from slog.Level) (*slog.Logger, error) {
	logger, err := NewLogger(os.Stderr, format, &level)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(logger)
	redirectKlog(logger)
	return logger, setLevel(from, verbosityAt(from))
}

// SetLevel changes the level of the process's logger while it runs. text is a level, as for ParseLevel, or a klog
// verbosity, as kube-scheduler's /debug/flags/v accepts it: 4 or more is debug, less is info.
func SetLevel(text string) error {
	text = strings.TrimSpace(text)
	if v, err := strconv.ParseInt(text, 10, 32); err == nil && v >= 0 {
		to := slog.LevelInfo
		if v >= klogDebug {
			to = slog.LevelDebug
		}
		return setLevel(to, int(v))
	}
	to, err := ParseLevel(text)
	if err != nil {
		return fmt.Errorf("%w, or a klog verbosity (0 or more)", err)
	}
	return setLevel(to, verbosityAt(to))
}

// Level returns the level of the process's logger in the form that ParseLevel accepts.
func Level() string { return strings.ToLower(level.Level().String()) }

// verbosityAt returns klog's verbosity at a level of slog: klog has no levels below info, only verbosities.
func verbosityAt(l slog.Level) int {
	if l <= slog.LevelDebug {
		return klogDebug
	}
	return 0
}

// setLevel sets both levels. They are not changed atomically; a line in between may be at either.
func setLevel(to slog.Level, verbosity int) error {
	level.Set(to)
	var v klog.Level
	return v.Set(strconv.Itoa(verbosity))
}

// redirectKlog redirects everything logged through klog to logger. It is not safe while klog is in use.
func redirectKlog(logger *slog.Logger) { klog.SetSlogLogger(logger) }
