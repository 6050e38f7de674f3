package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Records yields the records of the stream, oldest first, and io.EOF behind the last.
type Records interface {
	Next(ctx context.Context) (events.Record, error)
}

// GapError says that the history does not tell the ledger between two revisions: after From, and
// before To. From 0 is the beginning; To 0 is that nothing follows.
type GapError struct{ From, To int64 }

func (e *GapError) Error() string {
	switch {
	case e.To == 0:
		return fmt.Sprintf("the ledger's history ends at revision %d", e.From)
	case e.From == 0:
		return fmt.Sprintf("the ledger's history begins at revision %d", e.To)
	}
	return fmt.Sprintf("the ledger's history lacks the revisions after %d and before %d", e.From, e.To)
}

// Cursor reads the history forward. For one goroutine.
type Cursor struct {
	records  Records
	unpacker *zstd.Decoder
	// at is the revision that has been handed out; through is up to where buffer goes.
	at, through int64
	buffer      []ledger.Event
	// reset is a picture to be handed out before the buffer.
	reset *picture
	// partial is a picture of which parts have been read.
	partial *picture
	// broken: something is missing behind through.
	broken, ended bool
	// back: the picture of which parts have been read is of a ledger that went back; began counts those.
	back  bool
	began int
}

type picture struct {
	revision int64
	next     int32
	kvs      []ledger.KV
	// anew: the ledger went back to it.
	anew bool
}

// NewCursor returns a cursor before the beginning; Close it after use.
func NewCursor(r Records) (*Cursor, error) {
	unpacker, err := newUnpacker()
	if err != nil {
		return nil, fmt.Errorf("ledger history: %w", err)
	}
	return &Cursor{records: r, unpacker: unpacker}, nil
}

// Close frees what reading needs.
func (c *Cursor) Close() { c.unpacker.Close() }

// To returns what brings a ledger.View from where the last call left it to a revision, exactly:
// nothing behind it is told. Revisions get smaller from call to call only where the ledger itself went back:
// then a picture that is told later counts. *GapError (errors.As) for one that the history does not tell; a
// later one may be asked for after that.
func (c *Cursor) To(ctx context.Context, revision int64) ([]ledger.ViewBatch, error) {
	for revision < c.at { // it is one of a ledger that has begun anew since
		if err := c.leap(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.reach(ctx, revision); err != nil {
		return nil, err
	}
	var out []ledger.ViewBatch
	if p := c.reset; p != nil {
		if p.revision > revision {
			return nil, &GapError{From: c.at, To: p.revision}
		}
		out = append(out, ledger.ViewBatch{
			Reset: true, Anew: p.anew, KVs: p.kvs, Events: ledger.EventBatch{Revision: p.revision},
		})
		c.reset = nil
	}
	n := c.upTo(revision)
	out = append(out, ledger.ViewBatch{
		Events: ledger.EventBatch{Revision: revision, Events: slices.Clone(c.buffer[:n])},
	})
	c.buffer = slices.Delete(c.buffer, 0, n)
	c.at = revision
	return out, nil
}

// Put returns what a revision put under a key, under all keys if that is empty. It looks ahead of
// To, which tells it again later; what To has told already is not found.
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

// upTo is how many of the buffer belong to revisions up to one.
func (c *Cursor) upTo(revision int64) int {
	return sort.Search(len(c.buffer), func(i int) bool { return c.buffer[i].ModRevision > revision })
}

// leap reads until a ledger that went back begins.
func (c *Cursor) leap(ctx context.Context) error {
	for from := c.began; c.began == from; {
		if err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reach reads until everything up to a revision is there.
func (c *Cursor) reach(ctx context.Context, revision int64) error {
	for c.through < revision {
		if err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read takes in one record. *GapError says that there is none.
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
		c.broken, c.partial = true, nil // what it told is missing, up to the next picture
	case p.picture:
		c.see(p)
	default:
		c.append(p)
	}
	return nil
}

// see takes in a part of a picture, which only matters where there is nothing yet or something
// is missing.
func (c *Cursor) see(p part) {
	if p.number == 0 && (c.partial == nil || c.partial.revision != p.through) {
		c.partial = &picture{revision: p.through}
		// A recorder that goes on begins where the one before it ended.
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
		c.partial.anew = true
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
		return // of no use before the next picture
	case p.after > c.through:
		c.broken = true
		return
	}
	known := c.through
	if n := len(c.buffer); n > 0 {
		known = max(known, c.buffer[n-1].ModRevision)
	}
	for _, ev := range p.changes {
		// One revision may be spread over parts: what follows on the newest belongs to it.
		if ev.ModRevision > c.through && ev.ModRevision >= known {
			c.buffer = append(c.buffer, ev)
		}
	}
	c.through = max(c.through, p.through)
}

// End hands out everything to the last revision that the history tells, step by step, and returns
// that revision. What is missing in between is skipped: a Reset follows it.
func (c *Cursor) End(ctx context.Context, visit func(ledger.ViewBatch) error) (int64, error) {
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
