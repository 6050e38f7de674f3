package memlog

import (
	"bytes"
	"slices"
	"sync"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// defaultBusBuffer is how many messages a subscription may have waiting.
const defaultBusBuffer = 1024

// bus delivers messages to subscriptions on the goroutine that publishes. If a subscription is being served
// already, by another publisher or further up the same stack, the publisher queues the message; the goroutine that
// serves the subscription continues until the queue is empty. So handlers run one at a time per subscription, may
// publish themselves, and no goroutine is needed.
type bus struct {
	buffer int

	mu struct {
		sync.Mutex
		closed        bool
		subscriptions map[string][]*subscription
		dropped       uint64
	}
}

// subscription is one handler with the messages that wait for it.
type subscription struct {
	handle func(data []byte)
	// waiting holds at most bus.buffer messages, oldest first. serving is true while a goroutine handles them;
	// stopped discards everything that comes later. All three are guarded by bus.mu.
	waiting [][]byte
	serving bool
	stopped bool
}

// Publish implements eventlog.Bus. It returns when every idle subscription has handled the message. A handler must
// not wait for another message of its own subscription.
func (l *Log) Publish(subject string, data []byte) error {
	if err := events.CheckSubject(subject); err != nil {
		return err
	}
	toServe, err := l.bus.enqueue(subject, data)
	for _, s := range toServe {
		l.bus.serve(s)
	}
	return err
}

// enqueue gives every subscription its copy and returns those that no goroutine serves yet.
func (b *bus) enqueue(subject string, data []byte) ([]*subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, eventlog.ErrClosed
	}
	var toServe []*subscription
	for _, s := range b.mu.subscriptions[subject] {
		if len(s.waiting) >= b.buffer {
			b.mu.dropped++
			continue
		}
		s.waiting = append(s.waiting, bytes.Clone(data))
		if !s.serving {
			s.serving = true
			toServe = append(toServe, s)
		}
	}
	return toServe, nil
}

// serve handles the messages that wait for s until none is left.
func (b *bus) serve(s *subscription) {
	for {
		data, ok := b.dequeue(s)
		if !ok {
			return
		}
		s.handle(data)
	}
}

// dequeue returns the next message, or ends the serving when there is none: under the same lock as enqueue, so that
// a message is never left without a goroutine.
func (b *bus) dequeue(s *subscription) (data []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.stopped || len(s.waiting) == 0 {
		s.serving = false
		return nil, false
	}
	data, s.waiting = s.waiting[0], s.waiting[1:]
	return data, true
}

// Subscribe implements eventlog.Bus. After stop returns, no further message is delivered; one that is being handled
// may still be.
func (l *Log) Subscribe(subject string, handle func(data []byte)) (stop func(), err error) {
	if err := events.CheckSubject(subject); err != nil {
		return nil, err
	}
	b := &l.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, eventlog.ErrClosed
	}
	if b.mu.subscriptions == nil {
		b.mu.subscriptions = map[string][]*subscription{}
	}
	s := &subscription{handle: handle}
	b.mu.subscriptions[subject] = append(b.mu.subscriptions[subject], s)
	return func() { b.unsubscribe(subject, s) }, nil
}

// unsubscribe stops a subscription and discards the messages that wait for it.
func (b *bus) unsubscribe(subject string, s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.stopped, s.waiting = true, nil
	rest := slices.DeleteFunc(slices.Clone(b.mu.subscriptions[subject]),
		func(other *subscription) bool { return other == s })
	if len(rest) == 0 {
		delete(b.mu.subscriptions, subject)
		return
	}
	b.mu.subscriptions[subject] = rest
}

// Dropped returns how many messages overflowed a subscription's buffer so far.
func (l *Log) Dropped() uint64 {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	return l.bus.mu.dropped
}

// close stops all subscriptions. A handler that is running ends on its own.
func (b *bus) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	for _, list := range b.mu.subscriptions {
		for _, s := range list {
			s.stopped, s.waiting = true, nil
		}
	}
	b.mu.subscriptions = nil
}
