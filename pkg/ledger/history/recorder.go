package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
)

const (
	// linger is how long changes wait for more: larger records compress better, and no reader is waiting for them.
	linger = 250 * time.Millisecond
	// progressEvery is how often the recorder writes that nothing has changed up to some revision.
	progressEvery = 10 * time.Second
	// partBytes is how much one record holds before it is compressed; it is far below eventlog.MaxMessage even for
	// data that does not compress.
	partBytes = 512 << 10
	// snapshotEvery and snapshotBytes determine when the next snapshot is due, by time and by the size of the changes
	// since, whichever comes first, provided there are changes. They bound how much a reader must read before it
	// knows the ledger, and how much of the stream retention may delete.
	snapshotEvery = 10 * time.Minute
	snapshotBytes = 256 << 20
	// firstPause and longestPause bound the delay between attempts after an error.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	pauseSteps               = 8
)

// Recorder writes the history. One runs at a time, in the leader. The log fences a second one; the two then
// alternate, which costs both some work, and breaks nothing.
type Recorder struct {
	Log    eventlog.Log
	Ledger ledger.Store
	Logger *slog.Logger
	Clock  clock.WithTicker
}

// Run records until ctx ends, and then returns nil. It retries whatever fails. Changes that were not written in the
// meantime are taken from the ledger store's own history; if that does not reach back far enough, they are missing,
// and a snapshot follows.
func (r *Recorder) Run(ctx context.Context) error {
	pause := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.2, Steps: pauseSteps, Cap: longestPause}
	delay := pause.DelayWithReset(r.Clock, longestPause*2)
	// The only error Until can return here is that ctx has ended.
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := r.record(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("ledger history not recorded; retrying", telemetry.KeyError, err)
		}
		return false, nil
	})
	return nil
}

// run is one attempt.
type run struct {
	*Recorder
	packer *zstd.Encoder
	// last is the sequence of the stream's end, through the revision recorded there.
	last    uint64
	through int64
	// pending changes, complete through the revision reached.
	pending []ledger.Event
	size    int
	reached int64
	// sinceSnapshot is the size of the changes since the last snapshot, which was written at the time lastSnapshot.
	sinceSnapshot           int
	lastSnapshot, lastWrite time.Time
}

// record resumes where the stream ends and records until something fails. The steps, in this order: read the end of the
// stream; compare it with the ledger's revision, since a lower one means that the ledger went back; write a snapshot if
// the stream has nothing to continue from; follow the watch.
func (r *Recorder) record(ctx context.Context) error {
	packer, err := newPacker()
	if err != nil {
		return err
	}
	run := &run{Recorder: r, packer: packer}
	if err := run.resume(ctx); err != nil {
		return err
	}
	_, revision, err := r.Ledger.List(ctx, identity.KeyCluster)
	if err != nil {
		return err
	}
	if run.through > revision {
		r.Logger.Warn("ledger restored to an older state; starting its history again",
			"recorded", run.through, "revision", revision)
		run.through, run.reached = 0, 0
	}
	if run.through == 0 {
		if err := run.writeSnapshot(ctx); err != nil {
			return err
		}
	}
	err = run.follow(ctx)
	if errors.Is(err, ledger.ErrCompacted) {
		r.Logger.Warn("ledger compacted changes that were not recorded", "after", run.through)
		run.through, run.pending = 0, nil
		return run.writeSnapshot(ctx)
	}
	return err
}

// resume reads where the stream ends. A snapshot that was not completed counts as none.
func (r *run) resume(ctx context.Context) error {
	last, err := r.Log.Last(ctx, eventlog.Ledger)
	if err != nil || last == 0 {
		return err
	}
	r.last, r.lastSnapshot = last, r.Clock.Now()
	reader, err := r.Log.Read(ctx, eventlog.Ledger, last)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) {
		return nil // retention has deleted all records
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	records, err := reader.Next(ctx)
	if err != nil {
		return err
	}
	end := records[len(records)-1]
	unpacker, err := newUnpacker()
	if err != nil {
		return err
	}
	defer unpacker.Close()
	r.last = end.Sequence
	p, err := decode(unpacker, end)
	switch {
	case err != nil:
		// Recording cannot continue after it: a snapshot follows.
		r.unreadable().Record(end, err)
	case !p.snapshot:
		r.through = p.through
	case p.last:
		r.through = p.after
	}
	r.reached = r.through
	return nil
}

// unreadable returns notes about records of the history.
func (r *Recorder) unreadable() *unreadable.Log {
	return unreadable.New("queue", eventlog.Ledger, r.Logger, r.Clock.Now)
}

// follow writes what the ledger's watch delivers.
func (r *run) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := r.Ledger.Watch(ctx, "", r.through+1)
	tick := r.Clock.NewTicker(linger)
	defer tick.Stop()
	for {
		select {
		case b, more := <-w.Batches():
			if !more {
				return errors.Join(r.flush(ctx), w.Err())
			}
			if err := r.take(ctx, b); err != nil {
				return err
			}
		case <-tick.C():
			if err := r.flush(ctx); err != nil {
				return err
			}
			late := r.Clock.Since(r.lastSnapshot) >= snapshotEvery
			if r.sinceSnapshot >= snapshotBytes || late && r.sinceSnapshot > 0 {
				if err := r.writeSnapshot(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// take adds what the watch has delivered, and writes full parts.
func (r *run) take(ctx context.Context, b ledger.EventBatch) error {
	for _, ev := range b.Events {
		r.pending = append(r.pending, ev)
		if r.size += sizeOf(ev); r.size >= partBytes {
			// The revision of the last event may not be complete.
			if err := r.write(ctx, r.reached); err != nil {
				return err
			}
		}
	}
	r.reached = max(r.reached, b.Revision)
	return nil
}

func sizeOf(ev ledger.Event) int {
	const numbers = 24
	return len(ev.Key) + len(ev.Value) + numbers
}

// flush writes what is pending. Progress alone is written only every progressEvery.
func (r *run) flush(ctx context.Context) error {
	moved := r.reached > r.through && r.Clock.Since(r.lastWrite) >= progressEvery
	if len(r.pending) == 0 && !moved {
		return nil
	}
	return r.write(ctx, r.reached)
}

// write appends the pending changes, complete through a revision. Nothing in memory changes if that fails: the attempt
// ends, and the next one resumes from the stream.
func (r *run) write(ctx context.Context, through int64) error {
	through = max(through, r.through)
	p := part{after: r.through, through: through, changes: r.pending}
	if err := r.append(ctx, p); err != nil {
		return err
	}
	r.sinceSnapshot += r.size
	r.lastWrite = r.Clock.Now()
	r.pending = nil
	r.size = 0
	r.through = through
	return nil
}

// writeSnapshot lists the ledger and writes it, in parts. Changes that the watch has not delivered yet may be in it
// already, and are written again later all the same: a reader that has come this far does not need the snapshot.
func (r *run) writeSnapshot(ctx context.Context) error {
	kvs, revision, err := r.Ledger.List(ctx, "")
	if err != nil {
		return err
	}
	if r.through == 0 {
		r.through, r.reached = revision, revision
	}
	p := part{after: r.through, through: revision, snapshot: true}
	size := 0
	for _, kv := range kvs {
		ev := ledger.Event{KV: kv}
		if size += sizeOf(ev); size >= partBytes && len(p.changes) > 0 {
			if err := r.append(ctx, p); err != nil {
				return err
			}
			p.number++
			p.changes = nil
			size = sizeOf(ev)
		}
		p.changes = append(p.changes, ev)
	}
	p.last = true
	if err := r.append(ctx, p); err != nil {
		return err
	}
	r.sinceSnapshot, r.lastSnapshot = 0, r.Clock.Now()
	return nil
}

// append appends one part behind the last record that this recorder knows. Another recorder that has appended since
// makes it fail: this is the fence.
func (r *run) append(ctx context.Context, p part) error {
	m, err := encode(r.packer, p)
	if err != nil {
		return err
	}
	if m.Size() > eventlog.MaxMessage && len(p.changes) > 1 {
		return r.halve(ctx, p)
	}
	last, err := r.Log.Append(ctx, eventlog.Ledger, eventlog.Tail{Sequence: r.last}, []eventlog.Message{m})
	if err != nil {
		return fmt.Errorf("ledger history: %w", err)
	}
	r.last = last
	return nil
}

// halve writes a part that is too large as two, of which only the second completes it.
func (r *run) halve(ctx context.Context, p part) error {
	first, second := p, p
	first.changes, second.changes = p.changes[:len(p.changes)/2], p.changes[len(p.changes)/2:]
	first.last = false
	if !p.snapshot {
		first.through = p.after
	}
	if err := r.append(ctx, first); err != nil {
		return err
	}
	return r.append(ctx, second)
}
