package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

const (
	// readBatch is the number of records from which on Next adds no more messages.
	readBatch = 1024
	// readBuffer is how many records wait between the connection and Next. The same number is requested from the
	// server in advance, so a slow reader holds at most twice that.
	readBuffer = 1024
	// frameBuffer is the same for a stream of frames, each of which has up to frame.MaxBytes, or one large record.
	frameBuffer = 128
	// readHeartbeat is how often the server sends a heartbeat when there is nothing to deliver; after twice that
	// without a message, the consumer is recreated.
	readHeartbeat = time.Second
	// readExpiry is how long one request for records stays open at the server.
	readExpiry = 30 * time.Second
	// consumerTTL is how long the server keeps the consumer of a reader that is gone.
	consumerTTL = time.Minute
	// resetAttempts is how often a new incarnation of a consumer is requested under the same name. In a cluster a
	// consumer lives on one server, which may have been lost without the others knowing it yet: requesting it again
	// gets no answer for as long as that server is away. After a failure another incarnation is created, on a newly
	// chosen server.
	resetAttempts = 1
	// openTimeout bounds an attempt to create a consumer, openAttempts is how many attempts Read makes: a consumer
	// that was assigned to a server which was lost, without the cluster knowing it, is never created. When a
	// consumer falls silent the client requests another one by itself, but waits 10 s each time; facts would stall
	// for that long.
	openTimeout  = 2 * time.Second
	openAttempts = 3
	// verifyInterval spaces attempts to verify the position while the server does not answer,
	// verifyTimeout bounds one of them.
	verifyInterval = 250 * time.Millisecond
	verifyTimeout  = 2 * time.Second
)

// reader implements eventlog.Reader on an ordered consumer, and on another one when that is silent. All but the
// last six fields belong to the goroutine that calls Next.
//
// The rule that makes it safe: a record is returned only if its sequence is next, and only after it has been
// verified that the record before it is still the one that was returned, whenever that could have changed: at the
// first record of an incarnation of the consumer, and after a reconnection. The record's time of storage identifies
// it, because a lost tail is refilled later.
type reader struct {
	log  *Log
	name eventlog.Stream
	// next is the sequence of the record to return next; previous is when the log stored the record before it, zero
	// when there is none.
	next     uint64
	previous time.Time
	// verify is set when the record before next may no longer be the one that was returned.
	verify bool
	// held is an arrival whose check was interrupted; it precedes those in arrived.
	held *arrival
	// failed is the error that ended the reader.
	failed      error
	reconnected <-chan struct{}

	// arrived is filled by the consumer's callback.
	arrived chan arrival
	births  births
	// silence holds a notification that the consumer receives nothing from its server.
	silence   chan struct{}
	closed    chan struct{}
	closeOnce sync.Once
	mu        struct {
		sync.Mutex
		// consume is the consumer that delivers.
		consume jetstream.ConsumeContext
	}
}

// arrival is a message as the consumer delivered it: a record, or the records of a frame.
type arrival struct {
	records []eventlog.Record
	// first marks the first message of an incarnation of the consumer, and connection identifies the connection on
	// which that incarnation began. Records that were in flight when a connection broke arrive late, and may have
	// been lost since.
	first      bool
	connection uint64
	// err is set instead when the delivery could not be read.
	err error
}

// Read implements eventlog.Log.
func (l *Log) Read(ctx context.Context, name eventlog.Stream, from uint64) (eventlog.Reader, error) {
	reconnected := l.reconnected() // before the state, so that nothing in between is missed
	state, err := l.state(ctx, name)
	if err != nil {
		return nil, err
	}
	if from < max(state.FirstSeq, 1) || from > state.LastSeq+1 {
		return nil, &eventlog.ErrGap{Stream: name, Want: from, Have: max(state.FirstSeq, 1)}
	}
	r := &reader{
		log: l, name: name, next: from, reconnected: reconnected,
		arrived: make(chan arrival, l.readAhead(name)), silence: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if r.previous, err = l.storedAt(ctx, name, from-1, state); err != nil {
		return nil, err
	}
	for range openAttempts {
		if r.mu.consume, err = r.open(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if err != nil {
		return nil, l.explain(fmt.Errorf("jetstream: read stream %s from %d: %w", name, from, err))
	}
	return r, nil
}

// readAhead returns how many messages of a stream are requested in advance. It depends on what the stream may have, and
// not on its format: a stream has frames from before it was switched back, and a server cuts off a client to which it
// owes 64 MiB.
func (l *Log) readAhead(name eventlog.Stream) int {
	if canFrame(name) {
		return frameBuffer
	}
	return readBuffer
}

// open creates a new consumer that delivers from next on.
func (r *reader) open(ctx context.Context) (jetstream.ConsumeContext, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	consumer, err := r.log.js.OrderedConsumer(ctx, string(r.name), jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.next,
		InactiveThreshold: consumerTTL,
		MaxResetAttempts:  resetAttempts,
	})
	if err != nil {
		return nil, err
	}
	return consumer.Consume(r.receive,
		jetstream.PullMaxMessages(r.log.readAhead(r.name)), jetstream.PullExpiry(readExpiry),
		jetstream.PullHeartbeat(readHeartbeat), jetstream.ConsumeErrHandler(r.consumeError))
}

// reopen replaces a silent consumer by another one. Both may deliver for a moment, each without gaps and none from
// beyond next: duplicates are dropped. When it fails it is retried, while the client continues trying with the
// existing consumer.
func (r *reader) reopen(ctx context.Context) {
	consume, err := r.open(ctx)
	if err != nil {
		r.log.logger.Debug("consumer not recreated yet", "stream", string(r.name), "error", err)
		time.AfterFunc(verifyInterval, r.signalSilent)
		return
	}
	r.mu.Lock()
	consume, r.mu.consume = r.mu.consume, consume
	r.mu.Unlock()
	go consume.Stop() //nolint:goroutine // see Close
	select {
	case <-r.closed: // closed in the meantime; Close may have stopped the previous one
		go r.stop() //nolint:goroutine // see Close
	default:
	}
}

// signalSilent reports that the consumer is silent. It does not block.
func (r *reader) signalSilent() {
	select {
	case r.silence <- struct{}{}:
	default:
	}
}

// storedAt returns when the log stored a record, zero when it does not have it.
func (l *Log) storedAt(
	ctx context.Context, name eventlog.Stream, sequence uint64, state jetstream.StreamState,
) (time.Time, error) {
	if sequence < max(state.FirstSeq, 1) || sequence > state.LastSeq {
		return time.Time{}, nil
	}
	stored, err := l.streams[name].GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil // retention has deleted it since
	}
	if err != nil {
		return time.Time{}, l.explain(fmt.Errorf("jetstream: record %d of stream %s: %w", sequence, name, err))
	}
	return stored.Time, nil
}

// receive is called by the client for every message, in order.
func (r *reader) receive(m jetstream.Msg) {
	var a arrival
	meta, err := m.Metadata()
	if err != nil {
		a.err = fmt.Errorf("jetstream: stream %s: delivery without position: %w", r.name, err)
	} else {
		a.first = meta.Sequence.Consumer == 1
		a.connection = r.births.of(meta.Consumer, r.log.connections)
		a.records = decode(m.Headers(), 0, eventlog.Record{
			Message:  eventlog.Message{Subject: m.Subject(), Data: m.Data()},
			Sequence: meta.Sequence.Stream, Time: meta.Timestamp,
		})
		if isAnswer(m.Headers(), 0) {
			r.log.logger.Warn("record of the log is a stored server response; skipped",
				"stream", string(r.name), "sequence", meta.Sequence.Stream, "subject", m.Subject())
		}
	}
	select {
	case r.arrived <- a:
	case <-r.closed:
	case <-r.log.closed:
	}
}

// maxBirths bounds births: only the last few incarnations can still have records in flight.
const maxBirths = 8

// births records on which connection each incarnation of a consumer, by its name, has delivered first. Callbacks of
// two incarnations may overlap. The connection matters because a server that comes back may have lost its tail:
// what was delivered on an older connection may not exist any more.
type births struct {
	mu struct {
		sync.Mutex
		list []birth
	}
}

// birth is an incarnation of a consumer, and the connection on which it has delivered first.
type birth struct {
	consumer   string
	connection uint64
}

// of returns the connection of a consumer, which is the present one for a new consumer.
func (b *births) of(consumer string, present func() uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, known := range slices.Backward(b.mu.list) {
		if known.consumer == consumer {
			return known.connection
		}
	}
	connection := present()
	b.mu.list = append(b.mu.list, birth{consumer: consumer, connection: connection})
	if len(b.mu.list) > maxBirths {
		b.mu.list = slices.Delete(b.mu.list, 0, 1)
	}
	return connection
}

// consumeError logs errors from which the consumer recovers by itself.
func (r *reader) consumeError(_ jetstream.ConsumeContext, err error) {
	r.log.logger.Debug("log reader recovered", "stream", string(r.name), "error", err)
	if errors.Is(err, jetstream.ErrNoHeartbeat) {
		r.signalSilent()
	}
}

// decode returns the records of a message, which has its data and not yet its header. It leaves out the headers of the
// protocol, the position of a fact that is where it was meant to be, and both header and data of an answer of the
// server; own is as for isAnswer.
func decode(headers nats.Header, own int, m eventlog.Record) []eventlog.Record {
	if isAnswer(headers, own) {
		m.Data = nil
		return []eventlog.Record{m}
	}
	if version := headers[frame.HeaderFrame]; len(version) > 0 {
		return frame.Decode(version[0], m)
	}
	if len(m.Data) == 0 {
		m.Data = nil
	}
	if at := headers[eventlog.HeaderPosition]; len(at) > 0 && at[0] == strconv.FormatUint(m.Sequence, 10) {
		delete(headers, eventlog.HeaderPosition)
	}
	m.Header = decodeHeader(headers)
	return []eventlog.Record{m}
}

// decodeHeader leaves out the headers of the protocol.
func decodeHeader(h nats.Header) eventlog.Header {
	fields := make(eventlog.Header, 0, len(h))
	for key, values := range h {
		if len(values) > 0 && !strings.HasPrefix(key, protocolPrefix) {
			fields = append(fields, eventlog.HeaderField{Key: key, Value: values[0]})
		}
	}
	return fields
}

// Next implements eventlog.Reader. It handles what needs no waiting first: a reader that has ended, a position to
// verify, a record that was held back. Then it waits for whichever comes first: a record, a new connection, a
// silent consumer, or an end.
func (r *reader) Next(ctx context.Context) ([]eventlog.Record, error) {
	for {
		if err := r.ended(ctx); err != nil {
			return nil, err
		}
		if r.verify {
			if err := r.verifyPosition(ctx); err != nil {
				return nil, r.fail(ctx, err)
			}
		}
		if a := r.held; a != nil {
			r.held = nil
			if records, err := r.drain(ctx, *a); err != nil || len(records) > 0 {
				return records, err
			}
		}
		select {
		case a := <-r.arrived:
			if records, err := r.drain(ctx, a); err != nil || len(records) > 0 {
				return records, err
			}
		case <-r.reconnected:
			r.reconnected = r.log.reconnected()
			r.verify = true
			r.signalSilent() // the client requests its consumer again, and may wait for it
		case <-r.silence:
			r.reopen(ctx)
		case <-r.closed:
		case <-r.log.closed:
		case <-ctx.Done():
		}
	}
}

// ended returns the error that Next must return at once, if any.
func (r *reader) ended(ctx context.Context) error {
	select {
	case <-r.closed:
		return eventlog.ErrClosed
	case <-r.log.closed:
		return eventlog.ErrClosed
	default:
	}
	if r.failed != nil {
		return r.failed
	}
	return ctx.Err()
}

// drain accepts a and the other records that have arrived. After an error the records that were accepted before it
// are returned first; the error is returned by the next call. An arrival whose check was interrupted by the
// caller's context is held, and checked again by the next call. Records that come from an older connection are
// accepted, and the position is verified before the next call returns any.
func (r *reader) drain(ctx context.Context, a arrival) ([]eventlog.Record, error) {
	var records []eventlog.Record
	for connection := r.log.connections(); ; {
		accepted, err := r.accept(ctx, a)
		if err != nil {
			if err = r.fail(ctx, err); r.failed == nil {
				r.held = &a
			}
			if len(records) > 0 {
				return records, nil
			}
			return nil, err
		}
		if accepted {
			records = append(records, a.records...)
			r.verify = r.verify || a.connection != connection
		}
		if len(records) >= readBatch {
			return records, nil
		}
		select {
		case a = <-r.arrived:
		default:
			return records, nil
		}
	}
}

// fail makes err final, unless it only reports that the caller's context ended. A reader that has failed returns
// the same error for ever: the caller opens another one where it wants to continue.
func (r *reader) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	r.failed = err
	return err
}

// accept checks that a is the record that must come next.
func (r *reader) accept(ctx context.Context, a arrival) (bool, error) {
	if a.err != nil {
		return false, a.err
	}
	sequence := a.records[0].Sequence
	if sequence < r.next {
		return false, nil // redelivered by a new incarnation of the consumer
	}
	if sequence > r.next {
		return false, &eventlog.ErrGap{Stream: r.name, Want: r.next, Have: sequence}
	}
	if a.first && !r.previous.IsZero() {
		if err := r.verifyPosition(ctx); err != nil {
			return false, err
		}
	}
	r.next, r.previous = sequence+1, a.records[0].Time
	return true, nil
}

// verifyPosition checks that the last record returned is still in the log, by the time at which the log stored it:
// after a lost tail its sequence is free, or taken by another record. It waits for the server to answer.
func (r *reader) verifyPosition(ctx context.Context) error {
	r.verify = true
	var result error
	err := wait.PollUntilContextCancel(ctx, verifyInterval, true, func(ctx context.Context) (bool, error) {
		same, err := r.sameAsBefore(ctx)
		if err != nil {
			return false, r.ended(ctx) // no answer: try again, unless closed
		}
		if !same {
			result = &eventlog.ErrGap{Stream: r.name, Want: r.next - 1, Have: r.next}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	r.verify = result != nil
	return result
}

// sameAsBefore asks the stream's leader for the record before next, and compares the times at which it was stored.
// It reports false only for certain: a record that was lost, or replaced by another one.
func (r *reader) sameAsBefore(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	state, err := r.log.state(ctx, r.name)
	if err != nil {
		return false, err
	}
	if r.next > state.LastSeq+1 {
		return false, nil
	}
	stored, err := r.log.storedAt(ctx, r.name, r.next-1, state)
	if err != nil {
		return false, err
	}
	// Zero: there was nothing to compare with, or retention has deleted it; if retention deleted more, the next
	// record shows a jump.
	return stored.IsZero() || r.previous.IsZero() || stored.Equal(r.previous), nil
}

// Close implements eventlog.Reader. The consumer is stopped concurrently: while there is no connection, the client
// makes the stop wait for its next attempt to connect.
func (r *reader) Close() {
	r.closeOnce.Do(func() {
		close(r.closed)
		go r.stop() //nolint:goroutine // ends with the client's next attempt or the connection
	})
}

// stop stops the consumer that delivers now.
func (r *reader) stop() {
	r.mu.Lock()
	consume := r.mu.consume
	r.mu.Unlock()
	consume.Stop()
}
