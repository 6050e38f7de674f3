package jetstream

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/nats-io/nats.go"
)

const (
	// busBufferMessages and busBufferBytes bound the messages that wait for a slow handler.
	busBufferMessages = 4096
	busBufferBytes    = 16 << 20
)

// Publish implements eventlog.Bus. While there is no connection, a bounded buffer stores the message.
func (l *Log) Publish(subject string, data []byte) error {
	if err := events.CheckSubject(subject); err != nil {
		return err
	}
	if err := l.connection.Publish(subject, data); err != nil {
		return l.explain(fmt.Errorf("jetstream: publish to %s: %w", subject, err))
	}
	return nil
}

// Subscribe implements eventlog.Bus. It returns once the server knows of the subscription, so that a message
// published afterwards, on any connection, arrives.
func (l *Log) Subscribe(subject string, handle func(data []byte)) (stop func(), err error) {
	if err := events.CheckSubject(subject); err != nil {
		return nil, err
	}
	counter := &dropCounter{log: l}
	subscription, err := l.connection.Subscribe(subject, func(m *nats.Msg) {
		counter.count(m.Sub)
		if published(m, subject) {
			handle(m.Data)
		}
	})
	if err != nil {
		return nil, l.explain(fmt.Errorf("jetstream: subscribe to %s: %w", subject, err))
	}
	if err := subscription.SetPendingLimits(busBufferMessages, busBufferBytes); err != nil {
		return nil, l.explain(fmt.Errorf("jetstream: subscribe to %s: %w", subject, err))
	}
	if err := l.connection.FlushTimeout(answerTimeout); err != nil {
		_ = subscription.Unsubscribe() // fails only when the connection is gone
		return nil, l.explain(fmt.Errorf("jetstream: subscribe to %s: %w", subject, err))
	}
	return func() { _ = subscription.Unsubscribe() }, nil // likewise
}

// published reports whether a message was sent by Publish. JetStream delivers a stored record under the record's
// own subject, and its answers with headers; a client that may read a stream can direct either to any subject.
func published(m *nats.Msg, subject string) bool { return m.Subject == subject && len(m.Header) == 0 }

// Dropped returns how many messages of the bus overflowed a subscription's buffer, as far as the subscriptions have
// noticed, which they do at the next message they handle.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// dropCounter adds up what one subscription lost. It is used only by the goroutine of its handler.
type dropCounter struct {
	log  *Log
	seen int
}

// count reports the messages that the subscription has lost since the last call.
func (c *dropCounter) count(subscription *nats.Subscription) {
	dropped, err := subscription.Dropped()
	if err != nil || dropped <= c.seen {
		return // the subscription has ended, or nothing is new
	}
	lost := dropped - c.seen
	c.seen = dropped
	c.log.dropped.Add(uint64(lost))
	if c.log.onDropped != nil {
		c.log.onDropped(lost)
	}
}
