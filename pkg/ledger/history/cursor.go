package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// Records yields the records of the stream, oldest first, and io.EOF after the last one.
type Records interface {
	Next(ctx context.Context) (eventlog.Record, error)
}

// GapError reports that the history lacks the ledger's changes between two revisions: after From, and before To.
// From is 0 at the beginning; To is 0 if nothing follows.
type GapError struct{ From, To int64 }

func (e *GapError) Error() string {
	switch {
	case e.To == 0:
		return fmt.Sprintf("the ledger history ends at revision %d", e.From)
	case e.From == 0:
		return fmt.Sprintf("the ledger history begins at revision %d", e.To)
	}
	return fmt.Sprintf("the ledger history lacks the revisions between %d and %d", e.From, e.To)
}

// Cursor reads the history forward. It is for use by one goroutine.
type Cursor struct {
	records  Records
	unpacker *zstd.Decoder
	// at is the revision that has been returned; through is the revision up to which buffer is complete.
	at, through int64
	buffer      []ledger.Event
	// reset is a snapshot that must be returned before the buffer.
	reset *snapshot
	// partial is a snapshot of which only some parts have been read.
	partial *snapshot
	// broken: changes are missing after through.
	broken, ended bool
	// back: the snapshot whose parts are being read is of a ledger that went back; began counts those snapshots.
	back  bool
	began int
}

// snapshot is one whose parts are being read, or were read.
type snapshot struct {
	revision int64
	// next is the number of the part that must follow.
	next int32
	kvs  []ledger.KV
	// restart: the ledger went back to this snapshot.
	restart bool
}

// NewCursor returns a cursor at the beginning; Close it after use.
func NewCursor(r Records) (*Cursor, error) {
	unpacker, err := newUnpacker()
	if err != nil {
		return nil, fmt.Errorf("ledger history: %w", err)
	}
	return &Cursor{records: r, unpacker: unpacker}, nil
}

// Close frees the decoder.
func (c *Cursor) Close() { c.unpacker.Close() }

// To returns the batches that bring a replica.View from the revision of the last call exactly to the given one, and
// no further. The revision decreases from call to call only where the ledger itself went back: then a snapshot that
// is recorded later applies. It returns *GapError (errors.As) for a revision that the history does not cover; the
// caller may then ask for a later one.
func (c *Cursor) To(ctx context.Context, revision int64) ([]replica.Batch, error) {
	for revision < c.at { // it belongs to a ledger that was replaced or went back since
		if err := c.skipToRestart(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.reach(ctx, revision); err != nil {
		return nil, err
	}
	var out []replica.Batch
	if p := c.reset; p != nil {
		if p.revision > revision {
			return nil, &GapError{From: c.at, To: p.revision}
		}
		out = append(out, replica.Batch{
			Reset: true, Restart: p.restart, KVs: p.kvs, Events: ledger.EventBatch{Revision: p.revision},
		})
		c.reset = nil
	}
	n := c.upTo(revision)
	out = append(out, replica.Batch{
		Events: ledger.EventBatch{Revision: revision, Events: slices.Clone(c.buffer[:n])},
	})
	c.buffer = slices.Delete(c.buffer, 0, n)
	c.at = revision
	return out, nil
}

// Put returns what a revision put under a key, or under all keys if key is empty. It looks ahead of To, which
// returns it again later; it does not find what To has already returned.
func (c *Cursor) Put(ctx context.Context, revision int64, key string) ([]ledger.KV, error) {
	if err := c.reach(ctx, revision); err != nil {
		return nil, err
	}
	var out []ledger.KV
	for _, ev := range c.buffer[c.upTo(revision-1):c.upTo(revision)] {
		if !ev.Deleted && (key == "" || ev.Key == key) {
			out = append(out, ev.KV)
		}
	}
	return out, nil
}

// upTo returns how many events of the buffer belong to revisions up to the given one.
func (c *Cursor) upTo(revision int64) int {
	return sort.Search(len(c.buffer), func(i int) bool { return c.buffer[i].ModRevision > revision })
}

// skipToRestart reads until the point where a ledger that went back begins.
func (c *Cursor) skipToRestart(ctx context.Context) error {
	for from := c.began; c.began == from; {
		if err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reach reads until the buffer is complete up to a revision.
func (c *Cursor) reach(ctx context.Context, revision int64) error {
	for c.through < revision {
		if err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads one record. It returns *GapError if there is none.
func (c *Cursor) read(ctx context.Context) error {
	if c.ended {
		return &GapError{From: c.through}
	}
	r, err := c.records.Next(ctx)
	if errors.Is(err, io.EOF) {
		c.ended = true
		return &GapError{From: c.through}
	}
	if err != nil {
		return err
	}
	p, err := decode(c.unpacker, r)
	switch {
	case err != nil:
		c.broken, c.partial = true, nil // its changes are missing, up to the next snapshot
	case p.snapshot:
		c.addPart(p)
	default:
		c.append(p)
	}
	return nil
}

// addPart records a part of a snapshot, which only matters where nothing has been read yet or something is missing.
func (c *Cursor) addPart(p part) {
	if p.number == 0 && (c.partial == nil || c.partial.revision != p.through) {
		c.partial = &snapshot{revision: p.through}
		// A recorder that continues begins where the previous one ended.
		c.back = p.after < c.through
	}
	if c.partial == nil || c.partial.revision != p.through || p.number != c.partial.next && p.number+1 != c.partial.next {
		c.partial = nil
		return
	}
	c.partial.next = p.number + 1
	c.broken = c.broken || c.through > 0 && p.after > c.through
	for _, ev := range p.changes {
		c.partial.kvs = append(c.partial.kvs, ev.KV)
	}
	if !p.last {
		return
	}
	if c.back {
		c.began++
		c.at = 0
		c.partial.restart = true
	}
	if c.through == 0 || c.broken || c.back {
		c.reset = c.partial
		c.buffer = nil
		c.through = c.partial.revision
		c.broken = false
		c.back = false
	}
	c.partial = nil
}

func (c *Cursor) append(p part) {
	switch {
	case c.through == 0 || c.broken:
		return // of no use before the next snapshot
	case p.after > c.through:
		c.broken = true
		return
	}
	known := c.through
	if n := len(c.buffer); n > 0 {
		known = max(known, c.buffer[n-1].ModRevision)
	}
	for _, ev := range p.changes {
		// One revision may be spread over parts: changes that follow at the newest revision belong to it.
		if ev.ModRevision > c.through && ev.ModRevision >= known {
			c.buffer = append(c.buffer, ev)
		}
	}
	c.through = max(c.through, p.through)
}

// End returns everything up to the last revision that the history covers, step by step, and then that revision. It
// skips gaps: a Reset follows each of them.
func (c *Cursor) End(ctx context.Context, visit func(replica.Batch) error) (int64, error) {
	for {
		err := c.reach(ctx, c.through+1)
		var gap *GapError
		if err != nil && !errors.As(err, &gap) {
			return 0, err
		}
		if c.through == 0 {
			return 0, err
		}
		batches, toErr := c.To(ctx, c.through)
		if toErr != nil {
			return 0, toErr
		}
		for _, b := range batches {
			if err := visit(b); err != nil {
				return 0, err
			}
		}
		if err != nil {
			return c.at, nil
		}
	}
}
