package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// markEvery is the time between two marks, and so the time within which the audit does not know the order of a
	// ledger revision and a resourceVersion. Each mark costs three linearizable reads.
	markEvery = 500 * time.Millisecond
	// markTimeout bounds the three reads of one mark; a mark that fails is left out.
	markTimeout = 5 * time.Second
	// flushEvery bounds what a crash of the recorder loses.
	flushEvery = time.Second
	// buffer is how many records may wait for the disk before the watches block; the watches then lag, and catch up.
	buffer = 1024
	// settleTimeout bounds the wait for everything that had happened when the recorder was stopped; settleEvery is
	// the polling interval.
	settleTimeout = 10 * time.Second
	settleEvery   = 50 * time.Millisecond
)

// Deps holds the systems that a recorder reads, and where it writes. All are required.
type Deps struct {
	Ledger ledger.Store
	API    kubernetes.Interface
	Out    *recording.Writer
	Logger *slog.Logger
	// Started is called once, when both systems have been listed: everything that happens from then on will be in the
	// history.
	Started func()
}

// Recorder is one recording. Its sources own their state; records is the channel to the goroutine that writes the
// file.
type Recorder struct {
	deps    Deps
	records chan recording.Record
	ledger  *ledgerSource
	objects []*source
}

// New prepares a recording. Nothing is read yet.
func New(deps Deps) *Recorder {
	r := &Recorder{deps: deps, records: make(chan recording.Record, buffer)}
	r.ledger = newLedgerSource(deps.Ledger, r.records)
	for _, k := range kinds(deps.API) {
		r.objects = append(r.objects, newSource(k, r.records, deps.Logger))
	}
	return r
}

// Run records until ctx ends, waits for everything that had happened until then, and ends the history. An error is
// about the file, or about the start. When the history is full, Run ends it with a record of that, and returns nil.
// The watches have a context of their own, since they must outlive ctx until the history is complete.
func (r *Recorder) Run(ctx context.Context) error {
	// The watches and the writer go on after ctx has ended, until record has completed the history and calls stop.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, watching := errgroup.WithContext(watching)
	g.Go(func() error { return r.write(watching) })
	g.Go(func() error { return r.ledger.run(watching) })
	g.Go(func() error {
		defer stop()
		return r.record(ctx, watching, g)
	})
	err := g.Wait()
	if errors.Is(err, recording.ErrFull) {
		end := recording.Record{End: &recording.End{Ledger: r.ledger.revision(), Reason: "the size limit was reached"}}
		r.deps.Logger.Warn("history ended: size limit reached", "revision", end.End.Ledger)
		return errors.Join(r.deps.Out.Write(end), r.deps.Out.Flush())
	}
	return err
}

// record starts the watches of objects once the ledger has been listed, writes marks until ctx ends, and then ends
// the history.
func (r *Recorder) record(ctx, watching context.Context, g *errgroup.Group) error {
	if err := wait(ctx, watching, r.ledger.listed); err != nil {
		return err
	}
	// The ledger has been listed, so a reservation that precedes a bind in these lists is in the history or in that
	// list.
	for _, s := range r.objects {
		g.Go(func() error { return s.run(watching) })
	}
	for _, s := range r.objects {
		if err := wait(ctx, watching, s.listed); err != nil {
			return err
		}
	}
	// From here on every change of both systems is recorded.
	r.deps.Started()
	r.markUntil(ctx, watching)
	if watching.Err() != nil {
		return nil
	}
	return r.finish(watching)
}

// wait waits for the first list of a source. It returns nil, too, if another goroutine has failed: its error is the
// one to report.
func wait(ctx, watching context.Context, listed <-chan struct{}) error {
	select {
	case <-listed:
		return nil
	case <-ctx.Done():
		return errors.New("record: stopped before the ledger and the API server could be listed")
	case <-watching.Done():
		return nil
	}
}

// markUntil writes marks until ctx ends. A mark that fails is left out, and the failing of marks is logged once:
// without marks the audit knows less, and the history stays usable.
func (r *Recorder) markUntil(ctx, watching context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	missing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-watching.Done():
			return
		case <-tick.C:
		}
		// A mark that fails because of the end is not a failure.
		mark, err := r.mark(ctx)
		if ctx.Err() != nil {
			return
		}
		if failed := err != nil; failed != missing {
			r.deps.Logger.Info("mark state changed", "failing", failed, telemetry.KeyError, err)
			missing = failed
		}
		if err == nil {
			send(watching, r.records, recording.Record{Mark: &mark})
		}
	}
}

// mark reads the ledger's revision, then the API server's resourceVersion, then the ledger's revision again, each from
// the store itself (a linearizable read): a cached resourceVersion would relate an older state than there was.
func (r *Recorder) mark(ctx context.Context) (recording.Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	m := recording.Mark{Unix: time.Now().UnixMilli()}
	var err error
	if _, m.Ledger, err = r.deps.Ledger.List(ctx, identity.KeyCluster); err != nil {
		return m, err
	}
	if m.Objects, err = r.objects[0].current(ctx); err != nil {
		return m, err
	}
	_, m.Until, err = r.deps.Ledger.List(ctx, identity.KeyCluster)
	return m, err
}

// finish lists everything once more and waits until the watches have delivered all of it. What they do not deliver in
// time is taken from the lists, as missed. End.Objects is the lowest resourceVersion of the lists: up to there every
// kind is complete. A kind that cannot be listed is named as the reason why the history is not complete.
func (r *Recorder) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	end := recording.End{Reason: recording.EndStopped}
	if mark, err := r.mark(ctx); err == nil {
		send(ctx, r.records, recording.Record{Mark: &mark})
	}
	// The lowest version of all kinds counts: beyond it some kind may be incomplete.
	for _, s := range r.objects {
		rv, err := s.settle(ctx)
		if err != nil {
			end.Reason = fmt.Sprintf("%ss could not be listed at the end: %v", s.kind.name, err)
			break
		}
		if end.Objects == 0 || rv < end.Objects {
			end.Objects = rv
		}
	}
	revision, err := r.ledger.settle(ctx)
	if end.Ledger = revision; err != nil {
		end.Reason = fmt.Sprintf("the ledger could not be read at the end: %v", err)
	}
	send(context.WithoutCancel(ctx), r.records, recording.Record{End: &end})
	return nil
}

// write is the only goroutine that writes to the file.
func (r *Recorder) write(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return r.drain()
		case <-tick.C:
			if err := r.deps.Out.Flush(); err != nil {
				return err
			}
		case record := <-r.records:
			if err := r.deps.Out.Write(record); err != nil {
				return err
			}
		}
	}
}

// drain writes what was handed over before the end.
func (r *Recorder) drain() error {
	for {
		select {
		case record := <-r.records:
			if err := r.deps.Out.Write(record); err != nil {
				return err
			}
		default:
			return r.deps.Out.Flush()
		}
	}
}

// send hands a record to the writer, unless ctx ends first. It blocks while the disk is slow: the watches then lag,
// and lose nothing until the API server forgets the history.
func send(ctx context.Context, to chan<- recording.Record, r recording.Record) {
	select {
	case to <- r:
	case <-ctx.Done():
	}
}
