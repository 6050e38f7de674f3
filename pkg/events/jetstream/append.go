package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// Headers of JetStream's publish protocol (ADR-50 for those of batches).
const (
	headerExpectedLast = "Nats-Expected-Last-Sequence"
	// The last record of a subject; docs/decisions/0013 explains why not the last message's id.
	headerExpectedOfSubject = "Nats-Expected-Last-Subject-Sequence"
	headerExpectedSubject   = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerBatchID           = "Nats-Batch-Id"
	headerBatchSequence     = "Nats-Batch-Sequence"
	headerBatchCommit       = "Nats-Batch-Commit"
	headerStatus            = "Status"
	// headerOfRecord contains the subject of the record with which the server answers a request (ADR-31).
	headerOfRecord = "Nats-Subject"
	// statusNoResponders is the server's answer when no stream listens.
	statusNoResponders = "503"
	// protocolPrefix marks headers that belong to the protocol, not to the message.
	protocolPrefix = "Nats-"
)

// codeTooManyBatches is the server's error code for more open batches than it allows; the client has no name for
// it.
const codeTooManyBatches jetstream.ErrorCode = 10210

// Error codes of the server for which the client has no names: for a message over the stream's max_msg_size, and
// for a batch of which the server has received only a part.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeBatchIncomplete jetstream.ErrorCode = 10176
)

const (
	// answerTimeout bounds the wait for the server's answer when the caller sets no deadline.
	answerTimeout = 5 * time.Second
	// firstPatience is how long an append waits for an answer at first. A server takes milliseconds. But a request
	// that is on its way to a stream's leader while that hands over to another one, as a server that is being
	// stopped does, is not answered at all. The caller then looks at the log, or appends again.
	firstPatience = 2 * time.Second
)

// repeatBackoff spaces the repetitions of an append that was certainly not stored: a stream between two leaders has
// no responder, and a busy one has too many open batches. It adds up to about a second.
var repeatBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}

// batchFrom is the number of messages from which on an unfenced append is sent as an atomic batch. The server keeps
// a batch in separate files until it is complete: that takes 9 ms per batch, where 63 messages sent individually
// take 0.6 ms together, or 11 ms on a server that syncs each (BenchmarkLog). So a batch pays off from about 50
// messages on with the latter, from many hundred with the former.
const batchFrom = 64

// Append implements eventlog.Log. A fenced append is one message (a record or a frame), or one atomic batch of several.
// An unfenced one is sent message by message, without waiting in between, unless it is long.
//
// A frame that the server refuses for its size is sent again as frames of single records: its limit may have been
// lowered, and most records are smaller than that.
func (l *Log) Append(
	ctx context.Context, name eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message,
) (uint64, error) {
	if err := events.CheckAppend(name, msgs); err != nil {
		return 0, err
	}
	if err := errors.Join(l.check(name), ctx.Err()); err != nil {
		return 0, err
	}
	wire := l.encode(name, expect, msgs)
	last, err := l.appendWire(ctx, name, expect, msgs, wire)
	var refused *eventlog.ErrRefused
	if errors.As(err, &refused) && len(wire) < len(msgs) {
		return l.appendWire(ctx, name, expect, msgs, encodeFrames(expect, slices.Chunk(msgs, 1)))
	}
	return last, err
}

// appendWire sends one form of msgs.
//
// Checks that need no server come first, so that a message which can never be stored does not cost the connection.
// After an error, the order of the questions matters: whether the fence refused is certain and needs no request;
// whether a message was too large may need one.
func (l *Log) appendWire(
	ctx context.Context, name eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message, wire []*nats.Msg,
) (uint64, error) {
	if err := l.checkSizes(name, wire); err != nil {
		return 0, err
	}
	fenced := expect != eventlog.AnySequence
	atomic := len(wire) > 1 && (fenced || len(wire) >= batchFrom)
	if fenced {
		stampFence(wire[0].Header, expect)
	}
	last, err := l.publish(ctx, wire, atomic)
	if err == nil {
		return last, nil
	}
	if wrong := wrongSequence(name, expect, err); wrong != nil {
		return 0, wrong
	}
	if tooLarge(err) || l.batchTooLarge(ctx, name, wire, err) {
		return 0, &eventlog.ErrRefused{Stream: name, Message: largest(msgs), Reason: err.Error()}
	}
	return 0, l.explain(fmt.Errorf("jetstream: append %d messages to stream %s: %w", len(msgs), name, err))
}

// tooLarge reports whether the server or the client refuses a message for its size. Then nothing of a fenced append
// is stored, because it is one message, or one atomic batch.
func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge
}

// batchTooLarge reports whether a batch is incomplete because the stream's max_msg_size is below the size of one of its
// messages: the server reports that only for the first message, which asks for an answer.
func (l *Log) batchTooLarge(ctx context.Context, name eventlog.Stream, wire []*nats.Msg, err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != codeBatchIncomplete {
		return false
	}
	info, err := l.info(ctx, name)
	if err != nil {
		return false
	}
	limit := int(info.Config.MaxMsgSize)
	return limit > 0 && slices.ContainsFunc(wire, func(m *nats.Msg) bool { return wireSize(m) > limit })
}

// largest returns the index of the largest message. The server does not report which one is too large.
func largest(msgs []eventlog.Message) int {
	at := 0
	for i := range msgs {
		if msgs[i].Size() > msgs[at].Size() {
			at = i
		}
	}
	return at
}

// headerOverhead is an upper bound for what the protocol adds to a message's header.
const headerOverhead = 512

// minPayload is the minimum max_payload of a server.
const minPayload = eventlog.MaxMessage + headerOverhead

// checkPayload returns an error when the server does not accept every message that eventlog.MaxMessage allows.
func checkPayload(limit int64) error {
	if limit >= minPayload {
		return nil
	}
	return fmt.Errorf("max_payload of the server is %d bytes, want at least %d: set it in the server's configuration, "+
		"whose default of 1MB does", limit, minPayload)
}

// checkSizes refuses messages that this server would refuse, in case its limit has been lowered since Open: it
// closes the connection on such a message.
func (l *Log) checkSizes(name eventlog.Stream, wire []*nats.Msg) error {
	limit := l.connection.MaxPayload()
	for i, m := range wire {
		if size := wireSize(m) + headerOverhead; int64(size) > limit {
			return &eventlog.ErrRefused{Stream: name, Message: i, Reason: fmt.Sprintf(
				"%s has %d bytes, max_payload of this server is %d", m.Subject, size, limit)}
		}
	}
	return nil
}

// wireSize returns the bytes of a message that count against max_payload, except what the protocol adds.
func wireSize(m *nats.Msg) int {
	const separators = len(": \r\n")
	size := len(m.Data)
	for key, values := range m.Header {
		size += len(key) + len(values[0]) + separators
	}
	return size
}

// publish sends wire and returns the sequence of its last message. It repeats only what was certainly not stored.
// An append whose outcome is unknown is not repeated here: without a fence that could store its messages twice, and
// with one the repetition would be refused by the first attempt's success.
func (l *Log) publish(ctx context.Context, wire []*nats.Msg, atomic bool) (last uint64, err error) {
	limit := l.patience.Limit()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() { l.patience.Observe(ctx, limit, err) }()
	var refused error
	err = wait.ExponentialBackoffWithContext(ctx, repeatBackoff, func(ctx context.Context) (bool, error) {
		last, err = l.publishOnce(ctx, wire, atomic)
		if refused = nil; err == nil || !surelyNotStored(err) {
			return true, err
		}
		refused = err
		return false, nil
	})
	if refused != nil {
		return 0, refused // more informative than that the repetitions ran out
	}
	return last, err
}

// publishOnce sends wire, as one atomic batch or as individual messages, and waits for the answers.
func (l *Log) publishOnce(ctx context.Context, wire []*nats.Msg, atomic bool) (uint64, error) {
	if atomic {
		return l.publishBatch(ctx, wire)
	}
	return l.publishEach(ctx, wire)
}

// publishEach sends without waiting in between. It does not repeat a message that the server refuses, because later
// messages have been sent already.
func (l *Log) publishEach(ctx context.Context, wire []*nats.Msg) (uint64, error) {
	disconnected := l.disconnected()
	answers := make([]jetstream.PubAckFuture, len(wire))
	for i, m := range wire {
		m.Reply = "" // an earlier attempt has set it
		answer, err := l.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, fmt.Errorf("message %d was not sent, the outcome of those before it is unknown: %w", i, err)
		}
		answers[i] = answer
	}
	var count tally
	for _, answer := range answers {
		select {
		case ack := <-answer.Ok():
			count.add(ack.Sequence, nil)
		case err := <-answer.Err():
			if errors.Is(err, nats.ErrDisconnected) {
				return 0, errConnectionLost
			}
			count.add(0, err)
		case <-disconnected:
			return 0, errConnectionLost
		case <-ctx.Done():
			return 0, fmt.Errorf("no answer, the outcome is unknown: %w", ctx.Err())
		}
	}
	return count.result()
}

// publishBatch sends one atomic batch. The first message asks for an answer too, because the server reports there
// why it refused the batch; at the end it would only report that it does not know the batch.
func (l *Log) publishBatch(ctx context.Context, wire []*nats.Msg) (uint64, error) {
	inbox := l.connection.NewRespInbox()
	answers := make(chan *nats.Msg, len(wire))
	subscription, err := l.connection.ChanSubscribe(inbox, answers)
	if err != nil {
		return 0, err
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only when the connection is gone
	stampBatch(wire, inbox[strings.LastIndexByte(inbox, '.')+1:])
	disconnected := l.disconnected()
	for i, m := range wire {
		if i == 0 || i == len(wire)-1 {
			m.Reply = inbox
		}
		if err := l.connection.PublishMsg(m); err != nil {
			return 0, err
		}
	}
	for {
		select {
		case answer := <-answers:
			if sequence, final, err := readAnswer(answer); final {
				return sequence, err
			}
		case <-disconnected:
			return 0, errConnectionLost
		case <-ctx.Done():
			return 0, fmt.Errorf("no answer, the outcome is unknown: %w", ctx.Err())
		}
	}
}

// errConnectionLost ends the wait for an answer that cannot arrive any more.
var errConnectionLost = errors.New("connection lost before the answer, the outcome is unknown")

// tally gathers the answers to one append. The messages of a connection are stored in the order they were sent, so
// the last one has the highest sequence.
type tally struct {
	stored int
	last   uint64
	err    error
}

// add counts one answer. An error about size is kept in preference to others, because it explains them.
func (c *tally) add(sequence uint64, err error) {
	if err != nil {
		if !tooLarge(c.err) { // the most informative error
			c.err = err
		}
		return
	}
	c.stored++
	c.last = max(c.last, sequence)
}

// result returns the last sequence, or an error that is a refusal only if nothing was stored or a message was too
// large.
func (c *tally) result() (uint64, error) {
	if c.err != nil && c.stored > 0 && !tooLarge(c.err) {
		// Not wrapped: if it were mistaken for a refusal, the whole append would be sent again.
		//nolint:errorlint // on purpose, see above
		return 0, fmt.Errorf("%d messages were stored, others not: %v", c.stored, c.err)
	}
	return c.last, c.err
}

// stampFence sets which record must be at the end of the stream. The server checks both: which sequence is the
// stream's last, and which is the last of that record's subject.
func stampFence(header nats.Header, expect eventlog.Tail) {
	sequence := []string{strconv.FormatUint(expect.Sequence, 10)}
	header[headerExpectedLast] = sequence
	if expect.Subject != "" {
		header[headerExpectedOfSubject] = sequence
		header[headerExpectedSubject] = []string{expect.Subject}
	}
}

// stampBatch makes wire one atomic batch.
func stampBatch(wire []*nats.Msg, id string) {
	for i, m := range wire {
		m.Header[headerBatchID] = []string{id}
		m.Header[headerBatchSequence] = []string{strconv.Itoa(i + 1)}
	}
	wire[len(wire)-1].Header[headerBatchCommit] = []string{"1"}
}

// readAnswer reads one answer of the server; final is false for the empty answer which confirms that a batch was
// opened.
func readAnswer(m *nats.Msg) (sequence uint64, final bool, err error) {
	if len(m.Data) == 0 {
		if m.Header.Get(headerStatus) == statusNoResponders {
			return 0, true, nats.ErrNoResponders
		}
		return 0, false, nil
	}
	var answer struct {
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, true, fmt.Errorf("answer %q: %w", m.Data, err)
	}
	if answer.Error != nil {
		return 0, true, answer.Error
	}
	if answer.Sequence == 0 {
		return 0, true, fmt.Errorf("answer %q has no sequence", m.Data)
	}
	return answer.Sequence, true, nil
}

// isAnswer reports whether a stored message was made by the server, as the answer to a request for a record that
// was addressed to a subject of a stream. Its content is that of its original author, who may have had no
// permission for that subject. It is such an answer if it has more of the server's headers than the way it was read
// adds.
func isAnswer(h nats.Header, own int) bool { return len(h[headerOfRecord]) > own }

// batchHeaders is how many headers most messages of a batch get in addition to their own: the batch's ID and their
// sequence in it. The first and the last message get more; room for those in every map would double its size.
const batchHeaders = 2

// encode returns messages in wire form, as the stream stores them.
func (l *Log) encode(name eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message) []*nats.Msg {
	if least := l.Frames(name); least > 0 {
		return encodeFrames(expect, frame.Split(msgs, least))
	}
	wire := encodeAll(msgs)
	if name == eventlog.Facts && expect != eventlog.AnySequence {
		for i, m := range wire {
			m.Header[eventlog.HeaderPosition] = []string{strconv.FormatUint(expect.Sequence+uint64(i)+1, 10)}
		}
	}
	return wire
}

// encodeFrames returns one message for each part of an append.
func encodeFrames(expect eventlog.Tail, parts iter.Seq[[]eventlog.Message]) (wire []*nats.Msg) {
	for part := range parts {
		var position uint64
		if expect != eventlog.AnySequence {
			position = expect.Sequence + uint64(len(wire)) + 1
		}
		m := &nats.Msg{
			Subject: frame.Subject(part), Data: frame.Encode(part, position),
			Header: nats.Header{frame.HeaderFrame: frameVersion},
		}
		wire = append(wire, m)
	}
	return wire
}

// frameVersion is the value of the header of all frames.
var frameVersion = []string{frame.Version}

// encodeAll returns the messages in wire form, each as one.
func encodeAll(msgs []eventlog.Message) []*nats.Msg {
	wire := make([]*nats.Msg, len(msgs))
	for i := range msgs {
		header := make(nats.Header, len(msgs[i].Header)+batchHeaders)
		values := make([]string, len(msgs[i].Header)) // one array for the values of all keys
		for at, field := range msgs[i].Header {
			values[at] = field.Value
			header[field.Key] = values[at : at+1 : at+1]
		}
		wire[i] = &nats.Msg{Subject: msgs[i].Subject, Header: header, Data: msgs[i].Data}
	}
	return wire
}

// surelyNotStored reports whether an error means that nothing was stored and a retry makes sense: no server
// received the messages, or the server had no capacity for another batch.
func surelyNotStored(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.As(err, &api) && api.ErrorCode == codeTooManyBatches
}

// wrongSequence returns the fence's refusal, or nil when err is another error. The server has two codes for it. The
// one for replicated streams does not contain the actual sequence, and with a subject the answer does not show
// which of the two compares the sequence belongs to.
func wrongSequence(name eventlog.Stream, expect eventlog.Tail, err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return nil
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		wrong := &eventlog.ErrWrongSequence{Stream: name, Expected: expect.Sequence, Subject: expect.Subject}
		if _, text, found := strings.Cut(api.Description, ": "); found && expect.Subject == "" {
			// Stays 0, "not known", when the server words it differently.
			wrong.Actual, _ = strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		}
		return wrong
	}
	return nil
}
