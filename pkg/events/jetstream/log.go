package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berth-scheduler/berth/pkg/adaptivetimeout"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// Log implements eventlog.Log, eventlog.Snapshots and eventlog.Bus over one connection. It is safe for concurrent use.
type Log struct {
	connection *nats.Conn
	// js is the client's view of JetStream. streams, framed, least and snapshots are set by Open and do not change.
	js        jetstream.JetStream
	logger    *slog.Logger
	streams   map[eventlog.Stream]jetstream.Stream
	framed    map[eventlog.Stream]bool // streams of frames
	least     int                      // Config.MinFrame
	snapshots jetstream.ObjectStore
	objects   jetstream.Stream // the stream that stores the snapshots
	// dropped counts messages of the bus that were lost, for all subscriptions.
	dropped   atomic.Uint64
	onDropped func(messages int)
	// patience is how long an append waits for its answer. It adapts to how long answers have taken.
	patience *adaptivetimeout.Timeout

	closed    chan struct{}
	closeOnce sync.Once

	mu struct {
		sync.Mutex
		// lost is closed and replaced whenever the connection is lost, restored whenever there is a connection
		// again.
		lost, restored chan struct{}
	}
}

var (
	_ eventlog.Log       = (*Log)(nil)
	_ eventlog.Snapshots = (*Log)(nil)
	_ eventlog.Bus       = (*Log)(nil)
)

// Open connects and creates what is missing: the streams and the snapshot store. It fails at once, naming the
// server, when the server cannot be reached, is older than OldestServer or has no JetStream; later it reconnects
// indefinitely. Close the Log after use.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Log{
		patience: adaptivetimeout.New(firstPatience, answerTimeout),
		logger:   cfg.Logger, onDropped: cfg.OnDropped, closed: make(chan struct{}),
		streams: map[eventlog.Stream]jetstream.Stream{}, framed: map[eventlog.Stream]bool{},
		least: cmp.Or(cfg.MinFrame, frame.MinRecords),
	}
	if l.logger == nil {
		l.logger = slog.Default()
	}
	l.mu.lost, l.mu.restored = make(chan struct{}), make(chan struct{})
	connection, err := nats.Connect(strings.Join(cfg.URLs, ","), append(cfg.connectOptions(), l.handlers()...)...)
	if err != nil {
		return nil, fmt.Errorf("jetstream: connect to NATS server %s: %w", cfg.address(), err)
	}
	l.connection = connection
	if err = l.checkServer(); err == nil {
		err = l.prepare(ctx, cfg)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("jetstream: NATS server %s: %w", cfg.address(), err)
	}
	return l, nil
}

// checkServer refuses a server that is too old, or whose message size limit is below what the log promises.
func (l *Log) checkServer() error {
	err := checkVersion(l.connection.ConnectedUrlRedacted(), l.connection.ConnectedServerVersion())
	return errors.Join(err, checkPayload(l.connection.MaxPayload()))
}

// handlers returns the options that report changes of the connection.
func (l *Log) handlers() []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				l.logger.Warn("connection to NATS lost", "error", err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			close(l.mu.lost)
			l.mu.lost = make(chan struct{})
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			l.logger.Info("reconnected to NATS", "server", c.ConnectedUrlRedacted())
			if err := checkPayload(c.MaxPayload()); err != nil {
				l.logger.Error("log rejects large messages", "server", c.ConnectedUrlRedacted(), "error", err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			close(l.mu.restored)
			l.mu.restored = make(chan struct{})
		}),
		nats.ErrorHandler(l.asyncError),
	}
}

// asyncError logs errors that no call can return: refused permissions, full buffers.
func (l *Log) asyncError(_ *nats.Conn, subscription *nats.Subscription, err error) {
	attributes := []any{"error", err}
	if subscription != nil {
		attributes = append(attributes, "subject", subscription.Subject)
	}
	l.logger.Warn("error from NATS", attributes...)
}

// prepare creates or updates the streams and the snapshot store. Every service does this at its start, so that none
// depends on the order in which services start; a service without the permission finds them in place, and changes
// nothing.
func (l *Log) prepare(ctx context.Context, cfg Config) error {
	js, err := jetstream.New(l.connection, jetstream.WithPublishAsyncTimeout(answerTimeout))
	if err != nil {
		return err
	}
	l.js = js
	for _, name := range eventlog.Streams() {
		stream, err := l.ensureStream(ctx, name, cfg)
		if err != nil {
			return explainSetup("stream "+string(name), err)
		}
		l.streams[name] = stream
		l.framed[name] = formatOf(stream.CachedInfo().Config) == FormatFrames
	}
	return explainSetup("object store "+snapshotBucket, l.ensureSnapshots(ctx, cfg))
}

// ensureStream creates the stream, or updates an existing one to what Berth relies on and cfg requests, leaving the
// operator's other settings alone. It sends no request to the server if nothing changes.
func (l *Log) ensureStream(ctx context.Context, name eventlog.Stream, cfg Config) (jetstream.Stream, error) {
	// DenyPurge is not required of a stream that exists: services that may not change streams open it too.
	want := jetstream.StreamConfig{
		MaxAge: DefaultMaxAge, MaxBytes: DefaultMaxBytes, Replicas: DefaultReplicas, DenyPurge: true,
	}
	if name == eventlog.Ledger {
		want.MaxBytes = DefaultLedgerBytes
	}
	existing, err := l.js.Stream(ctx, string(name))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	format := cmp.Or(cfg.Format, FormatFrames)
	if err == nil {
		want, format = existing.CachedInfo().Config, cfg.Format
	}
	if err := setFormat(&want, name, format); err != nil {
		return nil, err
	}
	want.Name = string(name)
	want.Description = "berth: " + string(name)
	want.Subjects = []string{name.Prefix() + ".>"}
	want.Retention = jetstream.LimitsPolicy
	want.Discard = jetstream.DiscardOld
	want.Storage = jetstream.FileStorage
	want.MaxMsgs = -1
	want.MaxMsgsPerSubject = -1
	want.AllowAtomicPublish = true
	want.DenyDelete = true
	if want.MaxMsgSize > 0 && want.MaxMsgSize < minPayload {
		want.MaxMsgSize = -1
	}
	if cfg.MaxAge > 0 {
		want.MaxAge = cfg.MaxAge
	}
	if cfg.MaxBytes > 0 {
		want.MaxBytes = cfg.MaxBytes
	}
	if cfg.Replicas > 0 {
		want.Replicas = cfg.Replicas
	}
	if existing != nil && reflect.DeepEqual(want, existing.CachedInfo().Config) {
		return existing, nil // a user without the permission to change streams can do this
	}
	stream, err := l.js.CreateOrUpdateStream(ctx, want)
	if err != nil {
		return nil, err
	}
	return stream, checkKept(stream.CachedInfo().Config)
}

// checkKept returns an error when the server has dropped a setting that it does not know. A server without atomic
// batches would store the messages of a batch one by one, and a fence would hold for the first of them only.
func checkKept(have jetstream.StreamConfig) error {
	if have.AllowAtomicPublish {
		return nil
	}
	return errors.New("the server does not support allow_atomic: want NATS 2.12 or later")
}

// explainSetup explains the server's refusal in words.
func explainSetup(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%s: JetStream is not enabled on the server or for this user: %w", what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// Close ends the connection. Every operation that waits on the Log returns eventlog.ErrClosed.
func (l *Log) Close() {
	l.closeOnce.Do(func() {
		close(l.closed)
		l.connection.Close()
	})
}

// Last implements eventlog.Log.
func (l *Log) Last(ctx context.Context, name eventlog.Stream) (uint64, error) {
	state, err := l.state(ctx, name)
	return state.LastSeq, err
}

// state asks the server for the state of the stream.
func (l *Log) state(ctx context.Context, name eventlog.Stream) (jetstream.StreamState, error) {
	if err := l.check(name); err != nil {
		return jetstream.StreamState{}, err
	}
	info, err := l.info(ctx, name)
	if err != nil {
		return jetstream.StreamState{}, l.explain(fmt.Errorf("jetstream: state of stream %s: %w", name, err))
	}
	return info.State, nil
}

// infoTimeout is how long one request about a stream may stay open. While the stream has no leader no server receives
// the request, so it has to be repeated.
const infoTimeout = time.Second

// info asks for a stream's state until there is an answer, the caller's context ends, or answerTimeout has passed.
func (l *Log) info(ctx context.Context, name eventlog.Stream) (info *jetstream.StreamInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		question, done := context.WithTimeout(ctx, infoTimeout)
		info, err = l.streams[name].Info(question)
		done()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return info, err
		}
	}
}

// check returns an error for streams that do not exist and on a closed Log. Operations on a stream begin with it.
func (l *Log) check(name eventlog.Stream) error {
	if err := name.Check(); err != nil {
		return err
	}
	select {
	case <-l.closed:
		return eventlog.ErrClosed
	default:
		return nil
	}
}

// explain replaces an error that an operation returned because the Log was closed by ErrClosed.
func (l *Log) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-l.closed:
		return eventlog.ErrClosed
	default:
		return err
	}
}

// connections returns how many connections there have been after the first.
func (l *Log) connections() uint64 { return l.connection.Stats().Reconnects }

// disconnected returns a channel that is closed when the connection is lost the next time.
func (l *Log) disconnected() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lost
}

// reconnected returns a channel that is closed when a lost connection is restored.
func (l *Log) reconnected() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.restored
}
