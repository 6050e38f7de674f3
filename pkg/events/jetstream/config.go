package jetstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// Defaults of the streams' limits, used when a stream is created.
const (
	// DefaultMaxAge is how long records are kept: how far a restarted shard, a replay and the explanation of a
	// decision can look back.
	DefaultMaxAge = 72 * time.Hour
	// DefaultMaxBytes bounds each stream. The server reserves it, so it must fit on the disk.
	DefaultMaxBytes = 4 << 30
	// DefaultLedgerBytes is the same for the history of the ledger, which is compressed.
	DefaultLedgerBytes = 1 << 30
	// DefaultReplicas is for a single server.
	DefaultReplicas = 1
)

const (
	// connectTimeout bounds the dial of one server.
	connectTimeout = 5 * time.Second
	// reconnectWait and reconnectJitter space the attempts to reconnect, which continue indefinitely.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// reconnectBuffer bounds what is written while there is no connection. A message that does not fit fails at
	// once; one that fits is sent late, or never if the process ends first.
	reconnectBuffer = 1 << 20
	// pingInterval multiplied by pingsOutstanding plus one is the longest time for which a dead connection goes
	// unnoticed. It is shorter than servers take to elect another leader for the streams that a hanging server had
	// led.
	pingInterval     = time.Second
	pingsOutstanding = 2
)

// InProcessServer is a NATS server in this process (*server.Server of nats-server is one).
type InProcessServer interface {
	InProcessConn() (net.Conn, error)
}

// Retention bounds each stream. A field that is 0 leaves an existing stream as it is, and a new one gets DefaultMaxAge
// and DefaultMaxBytes.
type Retention struct {
	MaxAge   time.Duration
	MaxBytes int64
}

// Config describes how to reach the server and what the streams keep.
type Config struct {
	// URLs of the servers, nats://, tls:// or ws://, one or more. Unused with InProcess.
	URLs []string
	// InProcess, when set, is dialled instead of URLs.
	InProcess InProcessServer
	// Name of the connection in the server's monitoring; default "berth".
	Name string
	// InboxPrefix, when set, is the prefix of the subjects on which the server answers this client, such as
	// _INBOX.berth-queue. A client that may subscribe only to its own prefix cannot read the answers to others.
	InboxPrefix string
	// Logger receives lost connections and dropped messages; nil means slog.Default().
	Logger *slog.Logger
	// OnDropped, when set, is called with the number of bus messages that a subscription has lost because its
	// handler was too slow. It is called concurrently with handlers and must not block.
	OnDropped func(messages int)
	// User and Password, or CredsFile (a JWT with its key), or neither.
	User, Password string
	CredsFile      string
	// CAFile verifies the server; CertFile and KeyFile (both or neither) identify the client.
	CAFile, CertFile, KeyFile string
	// TLS, when set, verifies the server and identifies the client in place of these files.
	TLS *tls.Config
	Retention
	// Format of the streams of facts and decisions. Empty leaves an existing stream as it is and creates a new one with
	// FormatFrames.
	Format Format
	// MinFrame is the number of records from which an append stores them as a frame of several. 0 means
	// frame.MinRecords.
	MinFrame int
	// Replicas of each stream, 1 to 5. 0 leaves an existing stream as it is and creates a
	// new one with DefaultReplicas.
	Replicas int
}

// Validate returns one error that names every field that cannot be used.
func (c Config) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("jetstream: %s is %v, want %s", field, value, want))
	}
	if c.InProcess == nil && len(c.URLs) == 0 {
		bad("URLs", "empty", "at least one server, such as nats://127.0.0.1:4222")
	}
	for _, u := range c.URLs {
		if parsed, err := url.Parse(u); err != nil || parsed.Host == "" {
			bad("URLs", fmt.Sprintf("%q", redact(u)), "a URL such as nats://127.0.0.1:4222")
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		bad("CertFile and KeyFile", fmt.Sprintf("%q and %q", c.CertFile, c.KeyFile), "both or none")
	}
	if c.TLS != nil && c.CAFile+c.CertFile != "" {
		bad("CAFile and CertFile", fmt.Sprintf("%q and %q", c.CAFile, c.CertFile), "none with TLS")
	}
	if c.CredsFile != "" && c.User != "" {
		bad("CredsFile and User", fmt.Sprintf("%q and %q", c.CredsFile, c.User), "only one of them")
	}
	if strings.ContainsAny(c.InboxPrefix, "*> ") || strings.HasSuffix(c.InboxPrefix, ".") {
		bad("InboxPrefix", fmt.Sprintf("%q", c.InboxPrefix), "a subject without wildcards and a dot at its end")
	}
	if c.MaxAge < 0 {
		bad("MaxAge", c.MaxAge, "0 or more")
	}
	if c.MaxBytes < 0 {
		bad("MaxBytes", c.MaxBytes, "0 or more")
	}
	if _, known := formats[c.Format]; !known && c.Format != "" {
		bad("Format", fmt.Sprintf("%q", string(c.Format)), fmt.Sprintf("%s, %s or none", FormatFrames, FormatRecords))
	}
	if c.MinFrame < 0 || c.MinFrame > frame.MaxRecords {
		bad("MinFrame", c.MinFrame, fmt.Sprintf("0 to %d", frame.MaxRecords))
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		bad("Replicas", c.Replicas, "0 to 5")
	}
	return errors.Join(errs...)
}

// address names the server in errors, without passwords.
func (c Config) address() string {
	if c.InProcess != nil {
		return "in this process"
	}
	list := make([]string, len(c.URLs))
	for i, u := range c.URLs {
		list[i] = redact(u)
	}
	return strings.Join(list, ",")
}

// redact removes the password from a URL.
func redact(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return "(not a URL)" // it may hold a password
	}
	return parsed.Redacted()
}

// connectOptions translates the config. Open adds the handlers that need the Log.
func (c Config) connectOptions() []nats.Option {
	name := c.Name
	if name == "" {
		name = "berth"
	}
	options := []nats.Option{
		nats.Name(name),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.ReconnectBufSize(reconnectBuffer),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOutstanding),
	}
	if c.InboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.InProcess != nil {
		options = append(options, nats.InProcessServer(c.InProcess))
	}
	if c.User != "" {
		options = append(options, nats.UserInfo(c.User, c.Password))
	}
	if c.CredsFile != "" {
		options = append(options, nats.UserCredentials(c.CredsFile))
	}
	if c.TLS != nil {
		options = append(options, nats.Secure(c.TLS))
	}
	if c.CAFile != "" {
		options = append(options, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		options = append(options, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return options
}
