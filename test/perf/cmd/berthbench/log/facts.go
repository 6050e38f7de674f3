package log

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// objectBytes is about the size of a stripped pod.
const objectBytes = 600

// someFacts are facts about different pods, as a watch delivers them.
func someFacts(n int) []events.Fact {
	facts := make([]events.Fact, n)
	for i := range facts {
		facts[i] = events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: fmt.Sprintf("0e0e0e0e-0000-4000-8000-%012d", i),
			Namespace: "default", Name: fmt.Sprintf("web-%06d", i), Cause: "watch", Epoch: 1 << 30,
			ResourceVersion: uint64(1_000_000 + i), Progress: uint64(1_000_000 + i), Object: make([]byte, objectBytes),
		}
	}
	return facts
}

// messagesOf are facts as a writer appends them.
func messagesOf(facts []events.Fact) []eventlog.Message {
	messages := make([]eventlog.Message, len(facts))
	for i, f := range facts {
		messages[i] = events.EncodeFact(f)
	}
	return messages
}

// writer appends to the facts alone, and expects what it left, as the queue that leads does.
type writer struct {
	log  eventlog.Log
	tail eventlog.Tail
}

// append stores facts as one append. The encoding is part of it.
func (w *writer) append(ctx context.Context, facts []events.Fact) error {
	last, err := w.log.Append(ctx, eventlog.Facts, w.tail, messagesOf(facts))
	w.tail.Sequence = last
	return err
}

// appendAll stores facts in appends of so many.
func (w *writer) appendAll(ctx context.Context, facts []events.Fact, together int) error {
	for some := range slices.Chunk(facts, together) {
		if err := w.append(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads and decodes so many facts, from a sequence on.
func readAll(ctx context.Context, log eventlog.Log, from uint64, n int) error {
	reader, err := log.Read(ctx, eventlog.Facts, from)
	if err != nil {
		return err
	}
	defer reader.Close()
	for read := 0; read < n; {
		records, err := reader.Next(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d facts were read: %w", read, n, err)
		}
		for _, r := range records {
			if _, err := events.DecodeFact(r); err != nil {
				return err
			}
		}
		read += len(records)
	}
	return nil
}
