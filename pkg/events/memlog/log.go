package memlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/frame"
)

// defaultReadBatch bounds what one Next returns: large enough for a batched apply to pay off, small enough to keep
// a reader responsive.
const defaultReadBatch = 1024

// ErrAnswerLost is returned by Append after LoseNextAnswer: the messages are stored, and the caller cannot know
// that.
var ErrAnswerLost = errors.New("memlog: answer lost")

// Options of a Log. The zero value keeps everything.
type Options struct {
	// Keep is how many sequences each stream keeps; older ones are deleted at the next append. 0 keeps all.
	Keep int
	// ReadBatch is the number of records from which on Next adds no more sequences; 0 means 1024.
	ReadBatch int
	// Frames stores facts and decisions as frames, of any number of records.
	Frames bool
	// BusBuffer is how many messages one subscription may have waiting; 0 means 1024.
	BusBuffer int
	// Now stamps records, nil means time.Now.
	Now func() time.Time
}

// Log implements eventlog.Log, eventlog.Snapshots, eventlog.History and eventlog.Bus. Safe for concurrent use.
type Log struct {
	options Options

	mu struct {
		sync.Mutex
		closed    bool
		streams   map[eventlog.Stream]*stream
		snapshots map[eventlog.Stream]snapshot
		// most is the maximum size of a message, 0 for eventlog.MaxMessage; see RefuseAbove.
		most int
	}
	bus bus
}

var (
	_ eventlog.Log       = (*Log)(nil)
	_ eventlog.Snapshots = (*Log)(nil)
	_ eventlog.Bus       = (*Log)(nil)
)

// stream is one ordered log; guarded by Log.mu. Sequences are consecutive, so a position is an index, and no record
// needs to be searched for.
type stream struct {
	// frames are the records that are kept, by sequence up to last: one for each sequence, or those of a frame.
	frames [][]eventlog.Record
	last   uint64
	// losses lists, for every lost tail in order, the last sequence that survived it: a reader that had passed it
	// holds records that are gone.
	losses []uint64
	// changed is closed and replaced whenever a reader may have work to do.
	changed chan struct{}
	// loseAnswers counts appends that are still to be answered with ErrAnswerLost.
	loseAnswers int
}

// snapshot is the newest snapshot of a stream; older ones are discarded.
type snapshot struct {
	sequence uint64
	data     []byte
}

// New returns an empty log.
func New(options Options) *Log {
	if options.ReadBatch <= 0 {
		options.ReadBatch = defaultReadBatch
	}
	if options.BusBuffer <= 0 {
		options.BusBuffer = defaultBusBuffer
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	l := &Log{options: options}
	l.mu.streams = map[eventlog.Stream]*stream{}
	l.mu.snapshots = map[eventlog.Stream]snapshot{}
	for _, name := range eventlog.Streams() {
		l.mu.streams[name] = &stream{changed: make(chan struct{})}
	}
	l.bus.buffer = options.BusBuffer
	return l
}

// Close makes every operation, and every blocked Next, return eventlog.ErrClosed.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return
	}
	l.mu.closed = true
	for _, s := range l.mu.streams {
		s.wake()
	}
	l.bus.close()
}

// Append implements eventlog.Log. A message that can never be stored is refused before the fence is compared. An
// answer that is to be lost is lost only after the messages have been stored.
func (l *Log) Append(
	ctx context.Context, name eventlog.Stream, expect eventlog.Tail, msgs []eventlog.Message,
) (uint64, error) {
	if err := events.CheckAppend(name, msgs); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return 0, eventlog.ErrClosed
	}
	if i := slices.IndexFunc(msgs, func(m eventlog.Message) bool {
		return l.mu.most > 0 &&
			m.Size() > l.mu.most
	}); i >= 0 {
		return 0, &eventlog.ErrRefused{Stream: name, Message: i, Reason: fmt.Sprintf("too large: at most %d bytes",
			l.mu.most)}
	}
	s := l.mu.streams[name]
	if expect != eventlog.AnySequence && !s.endsWith(expect) {
		return 0, &eventlog.ErrWrongSequence{
			Stream: name, Expected: expect.Sequence, Actual: s.last, Subject: expect.Subject,
		}
	}
	s.append(msgs, l.Frames(name), l.options.Now(), l.options.Keep)
	if s.loseAnswers > 0 {
		s.loseAnswers--
		return 0, ErrAnswerLost
	}
	return s.last, nil
}

// endsWith reports whether the stream ends as a writer expects.
func (s *stream) endsWith(t eventlog.Tail) bool {
	if t.Sequence != s.last || t.Subject == "" {
		return t.Sequence == s.last
	}
	return len(s.frames) > 0 && frame.SubjectOf(s.frames[len(s.frames)-1]) == t.Subject
}

// append stores copies: the caller may reuse its slices. All messages of one append have the same time.
func (s *stream) append(msgs []eventlog.Message, least int, now time.Time, keep int) {
	parts := slices.Chunk(msgs, 1)
	if least > 0 {
		parts = frame.Split(msgs, least)
	}
	for part := range parts {
		s.last++
		s.frames = append(s.frames, copyOf(part, least > 0, s.last, now))
	}
	if surplus := len(s.frames) - keep; keep > 0 && surplus > 0 {
		clear(s.frames[:surplus])
		s.frames = s.frames[surplus:]
	}
	s.wake()
}

// copyOf returns the records that a reader gets of what is stored at a sequence. A frame is encoded and decoded as it
// is by a log on a server.
func copyOf(part []eventlog.Message, framed bool, sequence uint64, now time.Time) []eventlog.Record {
	if framed {
		return frame.Decode(frame.Version, eventlog.Record{
			Message:  eventlog.Message{Subject: frame.Subject(part), Data: frame.Encode(part, 0)},
			Sequence: sequence, Time: now,
		})
	}
	m := part[0]
	return []eventlog.Record{{
		Message:  eventlog.Message{Subject: m.Subject, Header: slices.Clone(m.Header), Data: bytes.Clone(m.Data)},
		Sequence: sequence, Time: now,
	}}
}

// Frames implements eventlog.Log.
func (l *Log) Frames(s eventlog.Stream) int {
	if l.options.Frames && s != eventlog.Ledger {
		return 1
	}
	return 0
}

// Last implements eventlog.Log. Sequences are never used twice except after LoseTail.
func (l *Log) Last(ctx context.Context, name eventlog.Stream) (uint64, error) {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return 0, eventlog.ErrClosed
	}
	return l.mu.streams[name].last, nil
}

// LoseTail drops every record of the stream after the given sequence, as a power loss drops records that were
// acknowledged but not yet on disk. Readers that had seen more get ErrGap, even after the tail has been refilled
// with other records.
func (l *Log) LoseTail(name eventlog.Stream, after uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.mu.streams[name]
	if s == nil || after >= s.last {
		return
	}
	s.frames = slices.DeleteFunc(s.frames, func(f []eventlog.Record) bool { return f[0].Sequence > after })
	s.last = after
	s.losses = append(s.losses, after)
	s.wake()
}

// Trim drops every record of the stream before the given sequence, as retention does. A reader that has not read
// them gets ErrGap.
func (l *Log) Trim(name eventlog.Stream, first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.mu.streams[name]; s != nil {
		s.frames = slices.DeleteFunc(s.frames, func(f []eventlog.Record) bool { return f[0].Sequence < first })
		s.wake()
	}
}

// LoseNextAnswer makes the next successful Append to the stream store its messages and return ErrAnswerLost. Calls
// add up: after two, the answers to two appends are lost.
func (l *Log) LoseNextAnswer(name eventlog.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.mu.streams[name]; s != nil {
		s.loseAnswers++
	}
}

// RefuseAbove makes Append refuse messages of more bytes, like a server whose limit was lowered.
func (l *Log) RefuseAbove(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.most = bytes
}

// wake wakes all readers that wait; called with the lock held.
func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// first returns the oldest sequence kept, or the next sequence when none is kept.
func (s *stream) first() uint64 { return s.last + 1 - uint64(len(s.frames)) }

// Put implements eventlog.Snapshots. It keeps only the newest call's snapshot, whatever its sequence.
func (l *Log) Put(ctx context.Context, name eventlog.Stream, sequence uint64, data []byte) error {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return eventlog.ErrClosed
	}
	l.mu.snapshots[name] = snapshot{sequence: sequence, data: bytes.Clone(data)}
	return nil
}

// Latest implements eventlog.Snapshots.
func (l *Log) Latest(ctx context.Context, name eventlog.Stream) (uint64, []byte, bool, error) {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return 0, nil, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return 0, nil, false, eventlog.ErrClosed
	}
	s, ok := l.mu.snapshots[name]
	return s.sequence, bytes.Clone(s.data), ok, nil
}
