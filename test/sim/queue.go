package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	queuecommit "github.com/berth-scheduler/berth/services/queue/commit"
	queuecore "github.com/berth-scheduler/berth/services/queue/decide"
	queueintake "github.com/berth-scheduler/berth/services/queue/intake"
)

// queueReplica is one replica of the queue: the core and its streams, and while it leads the
// writing of the facts.
type queueReplica struct {
	proc
	streams
	outbox
	core     *queuecore.Core
	folder   *feed.Folder
	facts    *queueintake.Facts
	holds    *queueintake.Holds
	caughtUp bool
	tick     time.Time
	leadership
}

// leadership is one leadership.
type leadership struct {
	// candidate is the session for which this replica has put its key.
	candidate int64
	running   bool
	term      int64
	led       bool
	rounds    uint64
	cause     string
	round     *round
	// still is the time since which the snapshot of facts has been at sequence at, while that was not the end of the
	// log.
	still time.Time
	at    uint64
	// claimed: the ledger belonged to the cluster before. recorded is how far its history went then.
	claimed  bool
	recorded int64
	renewal  *renewal
	// wentBack describes the changes that Kubernetes has lost, as found by the previous round; empty for none.
	wentBack string
}

// round is one life of the watches: it makes the log true and keeps it so.
type round struct {
	epoch uint64
	// behind is the fact that it continues from.
	behind uint64
	writer *queuecommit.Writer
	log    *factLog
	out    chan events.Fact
	stores map[events.Kind]queueintake.KindStore
	// watched is the resourceVersion each kind's watch has reached; a kind that it lacks has to be listed.
	watched map[events.Kind]uint64
	// connected is the life of the API server that each kind's watch is of.
	connected map[events.Kind]int
	failed    error
	synced    bool
	stored    uint64
}

// factRoom bounds the facts that one step of a watch may publish.
const factRoom = 4096

func (q *queueReplica) base() *proc { return &q.proc }

func (q *queueReplica) start() {
	q.begin()
	q.streams = streams{p: &q.proc, decisions: 1}
	q.outbox = outbox{}
	q.core = queuecore.New(q.w.queueConfig(q.member()))
	q.folder = feed.NewFolder()
	q.facts, q.holds = queueintake.NewFacts(), queueintake.NewHolds()
	q.caughtUp, q.tick = false, time.Time{}
	q.leadership = leadership{}
}

func (q *queueReplica) steps() []func() error {
	return []func() error{
		q.stepFacts, q.stepFacts, q.stepLedger, q.stepDecisions, q.stepTick, q.stepLead, q.stepWatch,
		q.stepWatch, q.stepWrite, q.stepWrite, q.stepSnapshot, func() error { return q.flush(&q.proc) },
	}
}

func (q *queueReplica) step(in queuecore.Input) error {
	for _, e := range q.core.Step(in, q.clock()) {
		switch e := e.(type) {
		case queuecore.SendOffers:
			q.offer(e)
		case queuecore.Record:
			q.add(e.Decision)
		case queuecore.NextTick:
			q.tick = e.At
		case queuecore.Counted:
			q.counted(e)
		}
	}
	if !q.facts.Ready() {
		return nil
	}
	if err := q.core.Check(q.facts.Snapshot().Pods()); err != nil {
		return q.w.breaks("%s: %v", q.member(), err)
	}
	return nil
}

// counted is I6, when long enough nothing has happened but what we do ourselves: what a flush
// brought to a node, an event has missed.
func (q *queueReplica) counted(n queuecore.Counted) {
	w := q.w
	if w.faultsEnded > 0 && w.now > w.faultsEnded+flushAfter && n.Caught > 0 {
		w.note("I6", "%s: a pod was parked although it fitted, until it was flushed", q.member())
	}
}

func (q *queueReplica) offer(e queuecore.SendOffers) {
	w := q.w
	w.publish(message{to: e.Shard, deliver: func() error {
		for _, s := range w.shards {
			if s.up && !s.paused() && s.member() == e.Shard {
				return s.offered(e.Batch)
			}
		}
		return nil
	}})
}

// asked handles a shard's request.
func (q *queueReplica) asked(r work.Request) error {
	return q.step(queuecore.WorkRequested{Request: r})
}

func (q *queueReplica) stepFacts() error {
	b, ok, err := q.readFacts()
	if err != nil || !ok {
		return err
	}
	step, err := q.folder.Fold(b)
	if err != nil {
		return q.w.breaks("%s: %v", q.member(), err)
	}
	for _, in := range q.facts.Take(step) {
		if err := q.step(in); err != nil {
			return err
		}
	}
	return nil
}

func (q *queueReplica) stepLedger() error {
	b, ok, err := q.readLedger()
	if err != nil || !ok {
		return err
	}
	in, err := q.holds.Fold(b, q.facts.Snapshot())
	if err != nil {
		return q.w.breaks("%s: %v", q.member(), err)
	}
	return q.step(in)
}

func (q *queueReplica) stepDecisions() error {
	batch, caughtUp, err := q.readDecisions()
	if err != nil || len(batch) == 0 && q.caughtUp {
		return err
	}
	q.caughtUp = q.caughtUp || caughtUp
	return q.step(queuecore.Decided{Decisions: batch, Through: max(q.decisions, 1) - 1, CaughtUp: q.caughtUp})
}

func (q *queueReplica) stepTick() error {
	if q.tick.IsZero() || q.clock().Before(q.tick) {
		return nil
	}
	q.tick = time.Time{}
	return q.step(queuecore.Tick{})
}

// stepLead runs for leadership, opens rounds, and finds out that it does not lead any more.
func (q *queueReplica) stepLead() error {
	w := q.w
	switch {
	case q.running && q.id != q.candidate:
		return q.depose("session lost")
	case q.id == 0 || !q.registered || w.down(&q.proc, toEtcd):
		return nil
	case q.candidate != q.id:
		q.candidate = q.id
		w.transact(&q.proc, "campaign", ledger.Txn{
			Compares: []ledger.Compare{{Key: q.candidacy(), Target: ledger.CreateRevision}},
			Puts:     []ledger.Put{{Key: q.candidacy(), Value: []byte(q.member()), Lease: q.id}},
		}, func(_ ledger.TxnResult, err error) error {
			if err != nil {
				q.candidate = 0 // not known: try again
			}
			return nil
		})
		return nil
	case !q.running:
		term, leads := w.leads(electionPrefix, q.candidacy())
		if leads {
			w.hit("queue takes over")
			q.running, q.term, q.cause = true, term, queueintake.CauseList
			return q.claim()
		}
		return nil
	case q.round == nil:
		if _, leads := w.leads(electionPrefix, q.candidacy()); !leads {
			return q.depose("another replica leads")
		}
		return q.openRound()
	}
	return nil
}

func (q *queueReplica) candidacy() string { return electionPrefix + strconv.FormatInt(q.id, 16) }

func (q *queueReplica) depose(why string) error {
	q.w.hit("queue deposed: " + why)
	q.leadership = leadership{}
	return q.step(queuecore.StepDown{})
}

// stallLimit bounds how long a leader waits for a snapshot that does not reach the end of the log.
const stallLimit = 5 * time.Second

// stalled reports whether the snapshot has made no progress for too long.
func (q *queueReplica) stalled() bool {
	if p := q.facts.Snapshot().Position().Sequence; q.still.IsZero() || q.at != p {
		q.at, q.still = p, q.clock()
	}
	return q.clock().Sub(q.still) >= stallLimit
}

// settle returns the snapshot that a round begins with: the one at the very end of the log, or after a while an empty
// one. Nil: neither yet.
func (q *queueReplica) settle() (*state.Snapshot, queuecommit.Base, error) {
	w := q.w
	snapshot := q.facts.Snapshot()
	if _, there := snapshot.Position().Hole(); there {
		return q.republish()
	}
	base, err := queuecommit.Behind(w.ctx, w.log, snapshot.Position())
	var diverged *queuecommit.DivergedError
	var undecodable *events.DecodeError
	switch {
	case errors.As(err, &undecodable):
		return q.republish()
	case err == nil || !errors.As(err, &diverged):
		return snapshot, base, err
	case q.stalled():
		return q.republish()
	}
	return nil, queuecommit.Base{}, nil
}

// republish returns the empty snapshot of a round that publishes all facts again.
func (q *queueReplica) republish() (*state.Snapshot, queuecommit.Base, error) {
	q.w.hit("facts told anew")
	base, err := queuecommit.Anew(q.w.ctx, q.w.log)
	base.Epoch = max(base.Epoch, q.facts.Snapshot().Position().Epoch)
	return state.New().Snapshot(), base, err
}

// openRound begins a round when it knows behind what.
func (q *queueReplica) openRound() error {
	w := q.w
	if w.down(&q.proc, toLog) {
		return nil
	}
	snapshot, base, err := q.settle()
	if err != nil || snapshot == nil {
		return err
	}
	n := queuecommit.Round{Term: q.term, Number: q.rounds, Begun: q.clock()}
	factsAfter, sound, err := q.checkGeneration(n.Epoch(base.Epoch))
	if err != nil || !sound {
		return err
	}
	if factsAfter > 0 && base.Epoch <= factsAfter {
		w.hit("facts told anew with a generation")
		snapshot, base.Anew = state.New().Snapshot(), true
	}
	n.Begun, q.wentBack = q.clock(), ""
	q.rounds, q.still = q.rounds+1, time.Time{}
	before := max(base.Epoch, factsAfter)
	r := &round{
		epoch: n.Epoch(before), behind: base.Tail.Sequence, out: make(chan events.Fact, factRoom),
		watched: map[events.Kind]uint64{}, connected: map[events.Kind]int{},
	}
	if w.mutant.epoch != nil {
		r.epoch = w.mutant.epoch(before)
	}
	r.log = &factLog{Log: w.log, p: &q.proc}
	r.writer = queuecommit.NewWriter(r.log, slog.New(slog.DiscardHandler), instant{}, base, r.epoch)
	watches := queueintake.Round{Base: snapshot, Reached: w.reached(), Cause: q.cause}
	r.stores = watches.Stores(w.api.kinds, r.out, func(err error) { r.failed = err })
	w.hit("round opened by " + q.cause)
	w.tracef("%s opens a round behind fact %d, by %s, as epoch %d", q.member(), r.behind, q.cause, r.epoch)
	q.round = r
	return q.wrote(r.writer.Open(w.ctx, q.cause))
}

// wrote looks at how the writer fared.
func (q *queueReplica) wrote(err error) error {
	var diverged *queuecommit.DivergedError
	switch {
	case errors.As(err, &diverged):
		q.w.hit("writer found the log diverged")
		q.repair(nil)
		return nil
	case err != nil:
		return fmt.Errorf("sim: writer of facts: %w", err)
	}
	return nil
}

func (q *queueReplica) stepWrite() error {
	if q.round == nil || q.w.down(&q.proc, toLog) {
		return nil
	}
	if q.w.chance(20) && !q.w.doubtful {
		q.w.recorded = max(q.w.recorded, q.w.store.Revision())
	}
	ctx, cancel := context.WithCancel(q.w.ctx)
	defer cancel()
	q.round.log.stop, q.round.log.appends = cancel, 0
	err := q.round.writer.Store(ctx, q.round.out)
	if !q.up {
		return nil // it died of it
	}
	if err := q.wrote(err); err != nil || q.round == nil {
		return err
	}
	if q.round.failed != nil || !q.followed() {
		q.repair(q.round.failed)
		return nil
	}
	return q.sync()
}

// followed reports whether the log can be followed, to the replica's present knowledge.
func (q *queueReplica) followed() bool {
	if q.hasUnreadable() || !q.holds.View().IsOpen() {
		return false
	}
	last, err := q.w.log.Last(q.w.ctx, eventlog.Facts)
	if err != nil || last == q.facts.Snapshot().Position().Sequence {
		q.still = time.Time{}
		return true
	}
	if q.stalled() {
		q.w.hit("log not followed by its leader")
		return false
	}
	return true
}

// sync informs the core that it leads, once the readers of the log have progress.
func (q *queueReplica) sync() error {
	if q.round.synced || !q.open() {
		return nil
	}
	q.round.synced = true
	if q.led {
		return nil
	}
	decided, err := q.w.log.Last(q.w.ctx, eventlog.Decisions)
	if err != nil {
		return err
	}
	q.led = true
	return q.step(queuecore.Lead{Term: q.term, Decided: decided})
}

// open reports whether the snapshot has progress in the round's epoch.
func (q *queueReplica) open() bool {
	p := q.facts.Snapshot().Position()
	_, known := p.Progress(events.KindPod)
	return known && p.Epoch == q.round.epoch
}

// stepSnapshot stores the state, now and then, as a leader does.
func (q *queueReplica) stepSnapshot() error {
	w := q.w
	if q.round == nil || !q.open() || w.down(&q.proc, toLog) || !w.chance(10) {
		return nil
	}
	s := q.facts.Snapshot()
	if s.Position().Sequence == q.round.stored {
		return nil
	}
	var diverged *queuecommit.DivergedError
	var undecodable *events.DecodeError
	var gap *eventlog.ErrGap
	switch err := queuecommit.Stands(w.ctx, w.log, s.Position()); {
	case errors.As(err, &undecodable) || errors.As(err, &gap): // the position is invalid, or that cannot be known
		return nil
	case errors.As(err, &diverged):
		w.hit("snapshot of lost facts not stored")
		return nil
	case err != nil:
		return err
	}
	data, sequence, err := s.Marshal()
	if err != nil {
		return err
	}
	q.round.stored = sequence
	return w.log.Put(w.ctx, eventlog.Facts, sequence, data)
}

// instant is a clock for those whose pauses do not matter here: its timers run out at once.
type instant struct{ clock.RealClock }

// NewTimer implements clock.Clock.
func (instant) NewTimer(time.Duration) clock.Timer {
	c := make(chan time.Time, 1)
	c <- base
	return ranOut(c)
}

type ranOut chan time.Time

// C implements clock.Timer.
func (t ranOut) C() <-chan time.Time { return t }

// Stop implements clock.Timer.
func (t ranOut) Stop() bool { return false }

// Reset implements clock.Timer.
func (t ranOut) Reset(time.Duration) bool { return false }

// drain is a rolling restart's: the replica resigns in good order.
func (q *queueReplica) drain() error {
	q.w.hit("queue resigned")
	q.leave()
	return nil
}
