package bare

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Log is a connection to a NATS server. It is safe for concurrent use.
type Log struct {
	connection *nats.Conn
	js         jetstream.JetStream
}

// Open connects to a server, which must be ready.
func Open(url string) (*Log, error) {
	connection, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("NATS server %s: %w", url, err)
	}
	js, err := jetstream.New(connection)
	if err != nil {
		connection.Close()
		return nil, fmt.Errorf("NATS server %s: %w", url, err)
	}
	return &Log{connection: connection, js: js}, nil
}

// Close closes the connection.
func (l *Log) Close() { l.connection.Close() }

// Create makes a stream on disk, whose only subject is its name.
func (l *Log) Create(ctx context.Context, stream string) error {
	_, err := l.js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream}})
	return err
}

// Append stores one message, and returns when the server has acknowledged it.
func (l *Log) Append(ctx context.Context, stream string, data []byte) error {
	_, err := l.js.Publish(ctx, stream, data)
	return err
}

// Stored returns how many bytes a stream has stored so far, as the server counts them.
func (l *Log) Stored(ctx context.Context, stream string) (uint64, error) {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.Bytes, nil
}

// Count reads a stream from its beginning on, and calls note with the size of each message, in their order and one at
// a time, until the returned function is called.
func (l *Log) Count(ctx context.Context, stream string, note func(bytes int)) (stop func(), err error) {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	consume, err := consumer.Consume(func(m jetstream.Msg) { note(len(m.Data())) })
	if err != nil {
		return nil, err
	}
	return consume.Stop, nil
}

// CountAll reads a stream until it has so many bytes of data.
func (l *Log) CountAll(ctx context.Context, stream string, bytes int) error {
	var seen atomic.Int64
	all := make(chan struct{})
	stop, err := l.Count(ctx, stream, func(more int) {
		if now := int(seen.Add(int64(more))); now >= bytes && now-more < bytes {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d bytes of stream %s were read: %w", seen.Load(), bytes, stream, ctx.Err())
	}
}
