package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stream names one ordered log.
type Stream string

const (
	// Facts is written only by the queue's fenced writer. Subjects facts.<kind>.<bucket of the uid>.<epoch>.
	Facts Stream = "FACTS"
	// Decisions is written by every service. Subjects decisions.<bucket of the pod's uid>.<kind>.
	Decisions Stream = "DECISIONS"
	// Ledger is the ledger's history (package ledger/history), written by the queue that leads, for questions about
	// the past. No service decides by it. Subjects ledger.<kind>.
	Ledger Stream = "LEDGER"
)

// Tail is the message that an append expects at the end of a stream: a record, or a frame of several.
type Tail struct {
	// Sequence of the last message, 0 for a stream that never had one.
	Sequence uint64
	// Subject of that message (frame.Subject); empty if any subject is accepted. Where subjects distinguish the records
	// of different writers, it also detects a log that has lost its tail and has since grown to the same length again
	// (docs/decisions/0013).
	Subject string
}

// AnySequence switches the fence of Append off, for streams with many writers.
var AnySequence = Tail{Sequence: ^uint64(0)}

// MaxBatch is the maximum number of messages in one Append: JetStream's limit for an atomic batch (ADR-50).
const MaxBatch = 1000

// MaxMessage is the maximum size of one message in bytes, header and data together: the default payload limit of a
// NATS server, minus what its protocol adds.
const MaxMessage = 1<<20 - 4<<10

// BatchBytes is how many bytes of data one Append should carry at most: a writer adds no more messages to a batch
// that has reached it.
const BatchBytes = 8 << 20

// MaxObject is the maximum size of a fact's object in bytes: MaxMessage minus room for the header.
const MaxObject = MaxMessage - 8<<10

// Message is one log entry before it has a sequence.
type Message struct {
	Subject string
	Header  Header
	Data    []byte
}

// Size returns the bytes of the message that count against MaxMessage.
func (m Message) Size() int {
	const separators = len(": \r\n")
	size := len(m.Data)
	for _, field := range m.Header {
		size += len(field.Key) + len(field.Value) + separators
	}
	return size
}

// Batches divides messages, in their order, into batches for one Append each: at most MaxBatch messages, and at
// most BatchBytes of data unless a single message has more.
func Batches(msgs []Message) iter.Seq[[]Message] {
	return func(yield func([]Message) bool) {
		from, size := 0, 0
		for i := range msgs {
			if i > from && (i-from == MaxBatch || size+len(msgs[i].Data) > BatchBytes) {
				if !yield(msgs[from:i:i]) {
					return
				}
				from, size = i, 0
			}
			size += len(msgs[i].Data)
		}
		if from < len(msgs) {
			yield(msgs[from:])
		}
	}
}

// Record is one log entry as read.
type Record struct {
	Message
	// Sequence is the position in the stream, which all records of a frame share. Index is the record's place among
	// them, counted from 0.
	Sequence uint64
	Index    int
	// Frame is the subject of the frame, empty for a record that is a message by itself.
	Frame string
	// Time is when the log stored it, by the log's clock. It is for human readers, and for the age of a record
	// where an error does no harm; never for other decisions.
	Time time.Time
}

// Log is an ordered, durable, bounded history. Implementations: jetstream, memlog.
// All methods are safe for concurrent use.
type Log interface {
	// Append stores msgs (1 to MaxBatch) and returns the sequence of the last one stored. Where Frames is not 0, they
	// are stored as frames, usually one: see frame.Split. Otherwise each has a sequence of its own.
	//
	// With an expected tail they are stored atomically after that record, and consecutively. ErrWrongSequence
	// (errors.As) means that nothing was stored: the stream ends elsewhere, or with a record of another subject, or
	// retention has deleted the record that was expected to have this subject. ErrRefused (errors.As) means that
	// nothing was stored, and that the same append is refused whenever it is tried. Any other error leaves the
	// outcome unknown: call Last, and compare, before trying again.
	//
	// With AnySequence they are stored in their order after the last record, but individually: records of other
	// writers may be stored between them, and after any error, ErrRefused included, any of them may have been
	// stored. (Atomicity costs a writer of small records most of its speed, and a writer without a fence must be
	// idempotent anyway.)
	Append(ctx context.Context, s Stream, expect Tail, msgs []Message) (last uint64, err error)
	// Frames returns the number of records from which an append to s stores them as a frame of several: one message of
	// the log, which costs about as much as a single record. It is 0 for a stream that has no frames at all. It does not
	// change while the Log is open. Readers read both.
	Frames(s Stream) int
	// Last returns the last sequence stored, 0 for an empty stream.
	Last(ctx context.Context, s Stream) (uint64, error)
	// Read opens a reader of s that starts at sequence from (at least 1). It returns ErrGap (errors.As) when from
	// is older than what is kept, and when it is beyond the next sequence: a reader that asks for that has seen a
	// tail that the log has lost.
	Read(ctx context.Context, s Stream, from uint64) (Reader, error)
}

// Reader yields records in order, without gaps. It is for use by one goroutine.
type Reader interface {
	// Next blocks until there is at least one record and returns those available (bounded by the implementation, in
	// order), of each frame all records or none. They may be shared with other readers and must only be read. It returns
	// ErrGap (errors.As) after a jump, or when records that were read are gone from the log (lost tail): bootstrap
	// again. An interrupted Next (ctx) may be called again.
	Next(ctx context.Context) ([]Record, error)
	// Close releases the reader; a blocked Next returns.
	Close()
}

// History finds the records about one object without reading the whole log; it is for human readers.
// Implementations: jetstream, memlog.
type History interface {
	// About returns the records of s that q selects, oldest first, as far as they are kept when it is called: only
	// the newest limit of them if limit is positive. Its cost is proportional to what its filter finds.
	About(ctx context.Context, s Stream, q Query, limit int) ([]Record, error)
}

// Snapshots keeps the newest state snapshot of each stream, so that a new reader need not start at sequence 1.
// Implementations: jetstream (object store), memlog.
type Snapshots interface {
	// Put replaces the snapshot of s by one that covers everything up to sequence.
	Put(ctx context.Context, s Stream, sequence uint64, data []byte) error
	// Latest returns the newest snapshot; ok is false when there is none.
	Latest(ctx context.Context, s Stream) (sequence uint64, data []byte, ok bool, err error)
}

// Bus carries hints: at most once, no order promised across publishers, nothing stored.
type Bus interface {
	// Publish sends the message and does not wait. An error means that it was certainly not sent.
	Publish(subject string, data []byte) error
	// Subscribe calls handle, one message at a time in arrival order, until stop is called (a message that is being
	// handled at that time may still be). handle must not block: the buffer is bounded and overflow is dropped.
	// Subjects have no wildcards.
	Subscribe(subject string, handle func(data []byte)) (stop func(), err error)
}

// ErrClosed is returned by operations on a closed log or reader.
var ErrClosed = errors.New("events: closed")

// ErrWrongSequence reports that the stream's last sequence was not the expected one, or that the record there had
// another subject. Actual is 0 when the log did not report it.
type ErrWrongSequence struct {
	Stream           Stream
	Expected, Actual uint64
	// Subject is the subject expected of the record, if any.
	Subject string
}

func (e *ErrWrongSequence) Error() string {
	if e.Subject != "" {
		return fmt.Sprintf("events: stream %s: expected last sequence %d (%s), it is %d or another record",
			e.Stream, e.Expected, e.Subject, e.Actual)
	}
	return fmt.Sprintf("events: stream %s: expected last sequence %d, it is %d", e.Stream, e.Expected, e.Actual)
}

// ErrRefused reports messages that the log does not accept, now or later: the same append must not be repeated.
type ErrRefused struct {
	Stream Stream
	// Message is the index of the message at fault, -1 if it is the append as a whole.
	Message int
	// Reason explains what is wrong and what is accepted.
	Reason string
}

func (e *ErrRefused) Error() string {
	if e.Message < 0 {
		return fmt.Sprintf("events: stream %s: %s", e.Stream, e.Reason)
	}
	return fmt.Sprintf("events: stream %s: message %d: %s", e.Stream, e.Message, e.Reason)
}

// WithoutRefused returns msgs without the one that err refuses for good, and whether it refuses one: then the
// others must still be appended. If it refuses the append as a whole, none are left. It is for writers without a
// fence.
func WithoutRefused(msgs []Message, err error) (rest []Message, refused bool) {
	var e *ErrRefused
	if !errors.As(err, &e) {
		return msgs, false
	}
	if e.Message < 0 || e.Message >= len(msgs) {
		return nil, true
	}
	return slices.Delete(slices.Clone(msgs), e.Message, e.Message+1), true
}

// ErrGap reports that records between Want and Have are gone from the stream.
type ErrGap struct {
	Stream     Stream
	Want, Have uint64
}

func (e *ErrGap) Error() string {
	return fmt.Sprintf("events: stream %s: sequence %d is no longer kept, the oldest is %d", e.Stream, e.Want, e.Have)
}

// Streams returns all streams, in a fixed order.
func Streams() []Stream { return []Stream{Facts, Decisions, Ledger} }

// Prefix returns the first token of all subjects of s, or "" when s is no stream.
func (s Stream) Prefix() string {
	switch s {
	case Facts:
		return SubjectFacts
	case Decisions:
		return SubjectDecisions
	case Ledger:
		return subjectLedger
	}
	return ""
}

// Check returns an error when s is not one of Streams.
func (s Stream) Check() error {
	if s.Prefix() == "" {
		return fmt.Errorf("events: stream %q is not known, there are %v", string(s), Streams())
	}
	return nil
}

// Prefixes of subjects, by stream.
const (
	SubjectFacts     = "facts"
	SubjectDecisions = "decisions"
	subjectLedger    = "ledger"
)

// Subjects of the ledger's history.
const (
	SubjectLedgerChanges = subjectLedger + ".changes"
	SubjectLedgerPicture = subjectLedger + ".picture"
)

const hexDigits = "0123456789ABCDEF"

// EscapeHeader writes every byte that a header line cannot carry unchanged as %XX: control characters, blanks
// (trimmed in transit), the percent sign and non-ASCII bytes. Names that Kubernetes allows remain unchanged.
func EscapeHeader(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = headerSafe(s[i])
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; headerSafe(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// headerSafe reports whether a byte may stand in a header unescaped.
func headerSafe(c byte) bool {
	return c > ' ' && c < 0x7f && c != '%'
}

// UnescapeHeader reverses EscapeHeader; ok is false for a broken escape.
func UnescapeHeader(s string) (plain string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}

// Query selects the records of a stream that History finds.
type Query struct {
	// Filter is matched against their subjects: "*" stands for one token, a final ">" for one or more.
	Filter string
	// UID is that of the object that they are about; empty for any.
	UID string
}

// Finds reports whether the query selects a record.
func (q Query) Finds(r Record) bool {
	return Matches(q.Filter, r.Subject) && (q.UID == "" || r.Header.Get(HeaderUID) == EscapeHeader(q.UID))
}

// Matches reports whether a subject matches a filter.
func Matches(filter, subject string) bool {
	want, have := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i == len(have):
			return false
		case token == ">":
			return true
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
