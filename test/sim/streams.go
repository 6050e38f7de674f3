package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// streams is the position of one process in each of the streams that it reads.
type streams struct {
	p       *proc
	history follow.History
	// revision is the ledger's, up to which everything has been read; 0: list first.
	revision int64
	// listing is a list of the ledger that was read and not yet delivered; listed: one was.
	listing *replica.Batch
	listed  bool
	// decisions is the sequence to read next of the decisions, 0: not open.
	decisions uint64
	// missed is the number of lost facts that a mutant has skipped.
	missed uint64
}

// readLedger returns the next batch of the ledger's watch; false for none. A list is delivered some time after it was
// read: answers to transactions may come in between.
func (s *streams) readLedger() (replica.Batch, bool, error) {
	w := s.p.w
	if w.down(s.p, toEtcd) || s.p.stalled() || w.now < s.p.deaf || w.chance(s.p.lagLedger) {
		return replica.Batch{}, false, nil
	}
	if s.listing != nil {
		b := s.mutated(*s.listing)
		if s.p.answered > s.listing.Events.Revision {
			w.hit("list of the ledger behind an own transaction")
		}
		s.listing, s.listed = nil, true
		return b, true, nil
	}
	if s.revision == 0 {
		return replica.Batch{}, false, s.list()
	}
	last := w.store.Revision()
	if last <= s.revision {
		return replica.Batch{}, false, nil
	}
	if w.faults.on {
		last = s.revision + 1 + w.rng.Int64N(last-s.revision)
	}
	events, err := w.store.Changes(s.revision+1, last)
	if errors.Is(err, ledger.ErrCompacted) {
		w.hit("ledger watch compacted")
		return replica.Batch{}, false, s.list()
	}
	if err != nil || events.Revision == 0 {
		return replica.Batch{}, false, err
	}
	s.revision = events.Revision
	return s.mutated(replica.Batch{Events: events}), true, nil
}

// list reads the whole ledger. The watch continues behind it.
func (s *streams) list() error {
	w := s.p.w
	kvs, revision, err := w.store.List(w.ctx, "")
	if err != nil {
		return err
	}
	id, _ := w.store.ID(w.ctx) // in memory
	s.revision = revision
	s.listing = &replica.Batch{Reset: true, KVs: kvs, Store: id, Events: ledger.EventBatch{Revision: revision}}
	return nil
}

func (s *streams) mutated(b replica.Batch) replica.Batch {
	if s.p.w.mutant.ledger == nil {
		return b
	}
	return s.p.w.mutant.ledger(s, b)
}

// maxRedelivered bounds how many records the log delivers again.
const maxRedelivered = 4

// readFacts returns the next batch of the log of facts. It opens the log again each time, so that a lost tail shows
// in the records alone.
func (s *streams) readFacts() (follow.Batch, bool, error) {
	w := s.p.w
	if !s.listed && !w.mutant.factsFirst || w.down(s.p, toLog) || s.p.stalled() || w.chance(s.p.lagFacts) {
		return follow.Batch{}, false, nil // the ledger first, then the facts
	}
	if s.history.Next() == 0 {
		b, err := s.bootstrap()
		return b, err == nil, err
	}
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	if err != nil {
		return follow.Batch{}, false, err
	}
	if w.mutant.lostTail && s.p.role != "queue" {
		return s.goOn(last)
	}
	if s.history.Check(last) != nil {
		w.hit("lost tail found by its end")
		s.history.Forget()
		return follow.Batch{}, false, nil
	}
	from := s.history.Next()
	if last < from {
		return follow.Batch{}, false, nil
	}
	if w.fault(5, "facts delivered again") {
		from -= min(from-1, uint64(1+w.rng.IntN(maxRedelivered)))
	}
	return s.take(from)
}

// take reads some records, from an existing sequence on.
func (s *streams) take(from uint64) (follow.Batch, bool, error) {
	w := s.p.w
	records, err := w.records(eventlog.Facts, from)
	if err == nil && w.faults.on {
		records = whole(records, s.p.batchSize(records))
	}
	var facts []events.SequencedFact
	if err == nil {
		if w.mutant.facts != nil {
			records = w.mutant.facts(s, records)
		}
		facts, err = s.history.Take(records)
	}
	var gap *eventlog.ErrGap
	switch {
	case errors.As(err, &gap):
		w.hit("gap in the facts")
		s.history.Missing(gap)
		return follow.Batch{}, false, nil
	case errors.Is(err, follow.ErrHistory):
		w.hit("lost tail found by its epoch")
		s.history.Forget()
		return follow.Batch{}, false, nil
	case err != nil:
		return follow.Batch{}, false, err
	}
	return follow.Batch{Facts: facts}, len(facts) > 0, nil
}

// bootstrap begins from the newest snapshot.
func (s *streams) bootstrap() (follow.Batch, error) {
	w := s.p.w
	sequence, data, _, err := w.log.Latest(w.ctx, eventlog.Facts)
	if err != nil {
		return follow.Batch{}, err
	}
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	if err != nil {
		return follow.Batch{}, err
	}
	if data != nil {
		w.hit("facts begun from a snapshot")
	}
	b := s.history.Begin(sequence, data, last)
	w.oracle.begins(s.p, b)
	if w.mutant.noBarrier {
		b.Barrier = 0
	}
	s.missed = 0
	return b, nil
}

// records are those of a stream from a sequence on, which must be there.
func (w *world) records(stream eventlog.Stream, from uint64) ([]eventlog.Record, error) {
	reader, err := w.log.Read(w.ctx, stream, from)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	records, err := reader.Next(w.ctx)
	return slices.Clone(records), err
}

// whole returns the first n records, and those that share a frame with the last of them: a reader gets whole frames.
func whole(records []eventlog.Record, n int) []eventlog.Record {
	for n < len(records) && records[n].Index > 0 {
		n++
	}
	return records[:n]
}

// readDecisions returns the next batch of the log of decisions; caughtUp reports that there is no more at the moment.
func (s *streams) readDecisions() (out []events.SequencedDecision, caughtUp bool, err error) {
	w := s.p.w
	if w.down(s.p, toLog) || s.p.stalled() {
		return nil, false, nil
	}
	last, err := w.log.Last(w.ctx, eventlog.Decisions)
	if err != nil {
		return nil, false, err
	}
	if s.decisions == 0 || s.decisions > last+1 {
		s.decisions = last + 1 // the effects of earlier decisions are in the ledger and the facts
	}
	if s.decisions > last {
		return nil, true, nil
	}
	records, err := w.records(eventlog.Decisions, s.decisions)
	if err != nil {
		return nil, false, err
	}
	if w.faults.on {
		records = whole(records, 1+w.rng.IntN(len(records)))
	}
	for _, r := range records {
		d, err := events.DecodeOutcome(r)
		s.decisions = r.Sequence + 1
		if err == nil { // else it is poison, which is skipped
			out = append(out, d)
		}
	}
	if w.fault(5, "decisions delivered again") {
		out = append(out, out...)
	}
	return out, s.decisions > last, nil
}

// outbox are decisions on their way to the log, in order.
type outbox struct{ waiting []events.Decision }

func (o *outbox) add(d ...events.Decision) { o.waiting = append(o.waiting, d...) }

// flush appends some of the waiting records. Records that are not acknowledged are appended again, so that the log
// may hold them twice.
func (o *outbox) flush(p *proc) error {
	w := p.w
	if len(o.waiting) == 0 || w.down(p, toLog) {
		return nil
	}
	n := len(o.waiting)
	if w.faults.on {
		n = 1 + w.rng.IntN(n)
	}
	if w.fault(5, "append lost before it was stored") {
		return nil
	}
	msgs := make([]eventlog.Message, n)
	for i, d := range o.waiting[:n] {
		msgs[i] = events.EncodeDecision(d)
	}
	if _, err := w.log.Append(w.ctx, eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
		return err
	}
	if w.fault(5, "append stored, not acknowledged") {
		return nil
	}
	o.waiting = slices.Delete(o.waiting, 0, n)
	return nil
}

// factLog is the log of facts as its writer sees it: appends may be lost, unanswered, or
// stored when the writer has given them up.
type factLog struct {
	*memlog.Log
	p *proc
	// stop ends the writer's present append; appends counts its appends. stop is nil while it opens.
	stop    func()
	appends int
}

// dies reports whether the writer dies before this append. What it was about may have taken several.
func (l *factLog) dies() bool {
	w := l.p.w
	if l.appends++; l.stop == nil || !w.faults.on || w.rng.IntN(1000) >= writerDies {
		return false
	}
	if l.appends > 1 {
		w.hit("crash between two facts")
	}
	l.p.crash()
	l.stop()
	return true
}

// writerDies is how many of a thousand appends of facts are not made, because the writer dies.
const writerDies = 2

// Append implements eventlog.Log.
func (l *factLog) Append(
	ctx context.Context, stream eventlog.Stream, last eventlog.Tail, msgs []eventlog.Message,
) (uint64, error) {
	w := l.p.w
	if w.mutant.append != nil {
		last = w.mutant.append(last)
	}
	w.checkDeletions(msgs)
	switch {
	case !l.p.up, l.dies():
		return 0, errUnknown
	case w.fault(3, "append of facts lost"):
		return 0, errUnknown
	case w.fault(3, "append of facts not acknowledged"):
		if _, err := l.Log.Append(ctx, stream, last, msgs); err != nil {
			return 0, err
		}
		return 0, errUnknown
	case w.fault(2, "append of facts late"):
		w.lateAppends = append(w.lateAppends, func() {
			if _, err := l.Log.Append(w.ctx, stream, last, msgs); err == nil {
				w.hit("late append of facts stored")
			}
		})
		return 0, errUnknown
	}
	w.landAppends(30)
	return l.Log.Append(ctx, stream, last, msgs)
}

// landAppends carries out, with some probability, appends whose sender no longer waits for them.
func (w *world) landAppends(percent int) {
	if len(w.lateAppends) == 0 || !w.chance(percent) {
		return
	}
	all := w.lateAppends
	w.lateAppends = nil
	for _, land := range all {
		land()
	}
}
