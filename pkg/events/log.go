package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Stream names one ordered log.
type Stream string

const (
	// Facts is written by the queue's fenced writer alone. Subjects facts.<kind>.<bucket of the uid>.<epoch>.
	Facts Stream = "FACTS"
	// Decisions is written by every service. Subjects decisions.<bucket of the pod's uid>.<kind>.
	Decisions Stream = "DECISIONS"
	// Ledger is the ledger's history (package ledger/history), written by the queue that leads, for
	// those who ask what was. Nobody decides by it. Subjects ledger.<kind>.
	Ledger Stream = "LEDGER"
)

// Tail is what an append expects to stand at the end of a stream.
type Tail struct {
	// Sequence of the last record, 0 for a stream that never had one.
	Sequence uint64
	// Subject of that record; empty: whichever it is. Where subjects tell one writer's
	// records from another's, it also finds a log that has lost its tail and has since grown
	// to the same length again (docs/decisions/0013).
	Subject string
}

// AnySequence as Append's expectation switches the fence off (many writers).
var AnySequence = Tail{Sequence: ^uint64(0)}

// MaxBatch is the most messages one Append may carry: JetStream's limit for an atomic
// batch (ADR-50).
const MaxBatch = 1000

// MaxMessage is the most bytes one message may have, header and data together: the default
// payload limit of a NATS server, less what its protocol adds.
const MaxMessage = 1<<20 - 4<<10

// BatchBytes is how many bytes of data one Append should carry at most: a writer takes no more messages into a batch
// that has them.
const BatchBytes = 8 << 20

// MaxObject is the most bytes the object of a fact may have: what MaxMessage leaves beside the header.
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

// Batches divides messages, in their order, into what one Append should carry: at most MaxBatch of them, and BatchBytes
// of data unless one alone has more.
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
	Sequence uint64
	// Time is when the log stored it, by the log's clock: for people, and for how long ago
	// something was where being wrong about it does no harm; never for other decisions.
	Time time.Time
}

// Log is an ordered, durable, bounded history. Implementations: jetstream, memlog.
// All methods are safe for concurrent use.
type Log interface {
	// Append stores msgs (1 to MaxBatch) and returns the sequence of the last one stored.
	//
	// With an expected tail they are stored atomically behind that record, and
	// consecutively. ErrWrongSequence (errors.As) means nothing was stored: the stream ends
	// elsewhere, or with a record of another subject, or retention has taken the record that
	// was to have this one. ErrRefused (errors.As) means nothing was stored, and the same append is refused whenever it
	// is tried. Any other error leaves the outcome unknown: call Last, and compare, before trying again.
	//
	// With AnySequence they are stored in their order behind whatever is last, but each for
	// itself: records of other writers may stand between them, and after any error, ErrRefused
	// included, any of them may be stored. (Atomicity costs a writer of small records most of its
	// speed, and who writes without a fence must be idempotent anyway.)
	Append(ctx context.Context, s Stream, expect Tail, msgs []Message) (last uint64, err error)
	// Last returns the last sequence stored, 0 for an empty stream.
	Last(ctx context.Context, s Stream) (uint64, error)
	// Read opens a reader of s that starts at sequence from (at least 1). ErrGap (errors.As)
	// when from is older than what is kept, and when it is further than the next sequence to
	// come: whoever asks for that has seen a tail that the log has lost.
	Read(ctx context.Context, s Stream, from uint64) (Reader, error)
}

// Reader yields records in order, without gaps. For one goroutine.
type Reader interface {
	// Next blocks for at least one record and returns those at hand (bounded by the
	// implementation, in order); they may be shared with other readers and are to be read
	// only. ErrGap (errors.As) after a jump, or when what was read is gone from the log
	// (lost tail): bootstrap again. An interrupted Next (ctx) may be called again.
	Next(ctx context.Context) ([]Record, error)
	// Close releases the reader; a blocked Next returns.
	Close()
}

// History finds the records about one thing without reading the whole log: for people.
// Implementations: jetstream, memlog.
type History interface {
	// About returns the records of s that q asks for, oldest first, as far as they are kept when it
	// is called: at most limit of them, the newest, if limit is positive. It costs what its filter
	// finds.
	About(ctx context.Context, s Stream, q Query, limit int) ([]Record, error)
}

// Snapshots keeps the newest state snapshot of each stream, so that a new reader need not
// start at sequence 1. Implementations: jetstream (object store), memlog.
type Snapshots interface {
	// Put replaces the snapshot of s by one that stands for everything up to sequence.
	Put(ctx context.Context, s Stream, sequence uint64, data []byte) error
	// Latest returns the newest snapshot; ok is false when there is none.
	Latest(ctx context.Context, s Stream) (sequence uint64, data []byte, ok bool, err error)
}

// Bus carries hints: at most once, no order promised across publishers, nothing stored.
type Bus interface {
	// Publish sends and forgets. An error means it was surely not sent.
	Publish(subject string, data []byte) error
	// Subscribe calls handle, one message at a time in arrival order, until stop is
	// called (one that is being handled then may still be). handle must not block: the
	// buffer is bounded and overflow is dropped. Subjects have no wildcards.
	Subscribe(subject string, handle func(data []byte)) (stop func(), err error)
}

// ErrClosed is returned by operations on a closed log or reader.
var ErrClosed = errors.New("events: closed")

// ErrWrongSequence reports that the stream's last sequence was not the expected one, or the
// record there had another subject. Actual is 0 when the log did not tell it.
type ErrWrongSequence struct {
	Stream           Stream
	Expected, Actual uint64
	// Subject is what was expected of the record, if anything was.
	Subject string
}

func (e *ErrWrongSequence) Error() string {
	if e.Subject != "" {
		return fmt.Sprintf("events: stream %s: expected last sequence %d (%s), it is %d or another record",
			e.Stream, e.Expected, e.Subject, e.Actual)
	}
	return fmt.Sprintf("events: stream %s: expected last sequence %d, it is %d", e.Stream, e.Expected, e.Actual)
}

// ErrRefused reports messages that the log does not take, now or later: the same append is never to be repeated.
type ErrRefused struct {
	Stream Stream
	// Message is the index of the one at fault, -1 if it is the append as a whole.
	Message int
	// Reason says what is wrong and what is accepted.
	Reason string
}

func (e *ErrRefused) Error() string {
	if e.Message < 0 {
		return fmt.Sprintf("events: stream %s: %s", e.Stream, e.Reason)
	}
	return fmt.Sprintf("events: stream %s: message %d: %s", e.Stream, e.Message, e.Reason)
}

// WithoutRefused returns msgs without the one that err refuses for good, and whether it refuses one: then the others
// are still to be appended. If it refuses the append as a whole, none are left. For writers without a fence.
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
	return fmt.Sprintf("events: stream %s: sequence %d is gone, oldest kept is %d", e.Stream, e.Want, e.Have)
}
