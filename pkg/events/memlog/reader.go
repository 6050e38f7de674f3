package memlog

import (
	"context"
	"errors"
	"sync"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// reader implements eventlog.Reader. It holds no records: it is a position in the stream, and the number of lost
// tails that it has checked that position against.
type reader struct {
	log  *Log
	name eventlog.Stream
	// next is the sequence of the record to return next; losses is how many lost tails the reader has taken into
	// account. Both belong to the reading goroutine.
	next   uint64
	losses int
	// gap is the error that ended the reader; every later Next returns it.
	gap error

	closed    chan struct{}
	closeOnce sync.Once
}

// Read implements eventlog.Log. A reader may begin at any record that is kept, or right after the last one.
func (l *Log) Read(ctx context.Context, name eventlog.Stream, from uint64) (eventlog.Reader, error) {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, eventlog.ErrClosed
	}
	s := l.mu.streams[name]
	if from < s.first() || from > s.last+1 {
		return nil, &eventlog.ErrGap{Stream: name, Want: from, Have: s.first()}
	}
	return &reader{log: l, name: name, next: from, losses: len(s.losses), closed: make(chan struct{})}, nil
}

// Next implements eventlog.Reader. The records share their headers and data with every other reader and must only
// be read. It waits on a channel that the next append closes, and then looks again: there is no queue per reader,
// so a slow reader costs nothing.
func (r *reader) Next(ctx context.Context) ([]eventlog.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		records, changed, err := r.take()
		if err != nil || len(records) > 0 {
			return records, err
		}
		select {
		case <-changed:
		case <-r.closed:
		case <-ctx.Done():
		}
	}
}

// take returns the available records, or else the channel to wait for. A lost tail is noticed before any record is
// returned: the present record at a position may be another one than the record that was lost.
func (r *reader) take() ([]eventlog.Record, <-chan struct{}, error) {
	select {
	case <-r.closed:
		return nil, nil, eventlog.ErrClosed
	default:
	}
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, nil, eventlog.ErrClosed
	}
	if r.gap != nil {
		return nil, nil, r.gap
	}
	s := l.mu.streams[r.name]
	for ; r.losses < len(s.losses); r.losses++ {
		if survived := s.losses[r.losses]; r.next > survived+1 {
			r.gap = &eventlog.ErrGap{Stream: r.name, Want: r.next - 1, Have: s.first()}
			return nil, nil, r.gap
		}
	}
	if r.next < s.first() {
		r.gap = &eventlog.ErrGap{Stream: r.name, Want: r.next, Have: s.first()}
		return nil, nil, r.gap
	}
	var records []eventlog.Record
	for _, frame := range s.frames[r.next-s.first():] {
		if len(records) >= l.options.ReadBatch {
			break
		}
		records = append(records, frame...)
		r.next++
	}
	return records, s.changed, nil
}

// Close implements eventlog.Reader.
func (r *reader) Close() { r.closeOnce.Do(func() { close(r.closed) }) }
