package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	shardcore "github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// shard is one scheduler shard.
type shard struct {
	proc
	streams
	outbox
	facts  *feed.Folder
	core   *shardcore.Core
	beat   time.Time
	more   bool
	idle   bool
	keeper keeper
	// offers is the version of the nodes that it knew when it was offered each pod that it has not decided on since,
	// and first the version that it knew when it first sent the transaction under way.
	offers knowledge
	first  uint64
}

// keeper does what pkg/membership.Keeper does, a step at a time.
type keeper struct {
	ownership membership.Snapshot
	// written is the revision of the last thing this keeper changed or learned.
	written int64
	// seen is when each live member was first seen.
	seen    map[string]time.Time
	waiting bool
	// looked is when the plan was last looked at.
	looked time.Time
}

const (
	// keeperInterval is how often the plan is looked at.
	keeperInterval = 200 * time.Millisecond
	// settle is how long another shard must have been seen before partitions go to it.
	settle = time.Second
	// keeperGroup is how many partitions one transaction takes or releases.
	keeperGroup = 64
	// window is how many offers a shard holds.
	window = 6
)

func (s *shard) base() *proc { return &s.proc }

func (s *shard) start() {
	s.begin()
	s.streams = streams{p: &s.proc}
	s.outbox, s.facts = outbox{}, feed.NewFolder()
	s.core = shardcore.New(shardcore.Config{
		Shard: s.member(), Profiles: s.w.profiles, Window: window, HomeFirst: true,
		Home: func(members []string, nodeUID string) bool { return membership.Home(members, nodeUID) == s.member() },
	})
	s.beat, s.more, s.idle = time.Time{}, false, false
	s.keeper = keeper{seen: map[string]time.Time{}}
	s.offers, s.first = knowledge{}, 0
}

func (s *shard) steps() []func() error {
	return []func() error{
		s.stepFacts, s.stepFacts, s.stepLedger, s.stepLedger, s.stepBoth, s.stepBeat, s.stepMore, s.stepKeeper,
		func() error { return s.flush(&s.proc) },
	}
}

func (s *shard) step(in step.Input) error {
	w := s.w
	out := s.core.Step(in, s.clock())
	if out.Fatal != nil {
		return w.breaks("%s: %v", s.member(), out.Fatal)
	}
	if out.Commit != nil {
		s.commit(*out.Commit)
	}
	for _, d := range out.Decisions {
		w.tracef("%s decided: %s %s %s, by revision %d and fact %d",
			s.member(), d.Kind, d.Pod.Name, d.NodeName, d.LedgerRevision, d.FactSequence)
		delete(s.offers, d.Pod.UID)
		w.checkFailed(d)
	}
	s.add(out.Decisions...)
	if out.Request != nil {
		s.request(*out.Request)
	}
	if ownership, moved := s.core.Ownership(); moved {
		s.keeper.ownership = ownership
	}
	s.more, s.idle = out.More, out.Idle
	if s.draining && s.idle && len(s.waiting) == 0 {
		w.hit("shard drained")
		s.leave()
	}
	return w.broken()
}

func (s *shard) commit(c step.Commit) {
	w, core := s.w, s.core
	txn := c.Txn
	if c.Resubmitted == 0 {
		s.first = s.nodesKnown()
	}
	if c.Resubmitted > 0 && w.mutant.resubmit != nil {
		txn = w.mutant.resubmit(w, txn)
	}
	w.transact(&s.proc, c.Kind, txn, func(r ledger.TxnResult, err error) error {
		var refused *ledger.TxnError
		if errors.As(err, &refused) {
			return w.breaks("%s: %s: %v", s.member(), c.Kind, err)
		}
		if core != s.core {
			return nil
		}
		err = s.step(step.Input{Results: []step.Result{{ID: c.ID, Err: err, Txn: r}}})
		if err == nil && w.mutant.earlyOwner && !r.Succeeded {
			return s.learnEarly(r.Current)
		}
		return err
	})
}

// learn applies a part of the ledger.
func (s *shard) learn(b ledger.EventBatch) error {
	return s.step(step.Input{Ledger: []replica.Batch{{Events: b}}})
}

func (s *shard) request(r work.Request) {
	w := s.w
	for _, q := range w.queues {
		w.publish(message{to: q.member(), deliver: func() error {
			if !q.up || q.paused() {
				return nil
			}
			return q.asked(r)
		}})
	}
}

// offered handles offers, possibly late.
func (s *shard) offered(b work.OfferBatch) error {
	for _, o := range b.Offers {
		if _, known := s.offers[o.Pod.UID]; !known {
			s.offers[o.Pod.UID] = s.nodesKnown()
		}
		if s.w.mutant.termsFirst {
			s.registerFirst(o.Pod.UID)
		}
	}
	return s.step(step.Input{Offers: []work.OfferBatch{b}})
}

// nodesKnown is up to which resourceVersion its facts show all nodes.
func (s *shard) nodesKnown() uint64 {
	rv, _ := s.core.Position().Progress(events.KindNode)
	return rv
}

// known is a lower bound of the version of the nodes that it knew when it decided on the pods of a transaction: for
// pods that it was offered, at the offer; for plans that it carries out, when it first sent the transaction.
func (s *shard) known(what string, t ledger.Txn) knowledge {
	out := knowledge{}
	for _, uid := range newReservations(t) {
		out[uid] = s.first
		if at, ok := s.offers[uid]; what == "T1" {
			out[uid] = 0
			if ok {
				out[uid] = min(at, s.first)
			}
		}
	}
	return out
}

// resetOffers: after a reset the shard's earlier facts are gone, and its next decisions may rest on older ones.
func (s *shard) resetOffers(b follow.Batch) {
	if b.Reset {
		for uid := range s.offers {
			s.offers[uid] = 0
		}
	}
}

func (s *shard) stepFacts() error {
	b, ok, err := s.readFacts()
	if err != nil || !ok {
		return err
	}
	s.resetOffers(b)
	steps, err := s.facts.FoldAll(b)
	if err != nil {
		return s.w.breaks("%s: %v", s.member(), err)
	}
	return s.step(step.Input{Facts: steps})
}

func (s *shard) stepLedger() error {
	b, ok, err := s.readLedger()
	if err != nil || !ok {
		return err
	}
	return s.step(step.Input{Ledger: []replica.Batch{b}})
}

// stepBoth is a step that finds something in both streams, as the real loop gathers it.
func (s *shard) stepBoth() error {
	var in step.Input
	l, ok, err := s.readLedger()
	if err != nil {
		return err
	}
	if ok {
		in.Ledger = append(in.Ledger, l)
	}
	f, ok, err := s.readFacts()
	if err != nil {
		return err
	}
	if ok {
		s.resetOffers(f)
		if in.Facts, err = s.facts.FoldAll(f); err != nil {
			return s.w.breaks("%s: %v", s.member(), err)
		}
	}
	if len(in.Ledger)+len(in.Facts) == 0 {
		return nil
	}
	return s.step(in)
}

func (s *shard) stepMore() error {
	if !s.more {
		return nil
	}
	return s.step(step.Input{})
}

func (s *shard) stepBeat() error {
	if s.clock().Sub(s.beat) < heartbeat {
		return nil
	}
	s.beat = s.clock()
	return s.step(step.Input{Beat: true})
}

// drain is part of a rolling restart: offers without a reservation are returned.
func (s *shard) drain() error {
	s.draining = true
	return s.step(step.Input{Drain: true, Beat: true})
}

// stepKeeper takes the partitions that this shard should hold and releases the others.
func (s *shard) stepKeeper() error {
	k := &s.keeper
	if k.waiting || k.ownership.Revision == 0 || k.ownership.Revision < k.written || !s.registered || s.draining {
		return nil
	}
	if !s.w.leases.alive(s.id) || s.clock().Sub(k.looked) < keeperInterval {
		return nil
	}
	k.looked = s.clock()
	take, _ := membership.PlanPartitions(k.ownership, k.ownership.Members, s.member())
	_, release := membership.PlanPartitions(k.ownership, k.settled(s.clock()), s.member())
	switch {
	case len(take) > 0:
		return s.keep("T13", take[:min(len(take), keeperGroup)], func(p int32) (ledger.Txn, error) {
			return roster.TakePartition(p, roster.Owner{Member: s.member()}, s.id)
		})
	case len(release) > 0:
		return s.keep("T13 release", release[:min(len(release), keeperGroup)], func(p int32) (ledger.Txn, error) {
			return roster.ReleasePartition(p, k.ownership.Holders[p].Epoch)
		})
	}
	return nil
}

func (k *keeper) settled(now time.Time) []string {
	var out []string
	for _, m := range k.ownership.Members {
		since, known := k.seen[m]
		if !known {
			since, k.seen[m] = now, now
		}
		if now.Sub(since) >= settle {
			out = append(out, m)
		}
	}
	return out
}

func (s *shard) keep(what string, partitions []int32, build func(int32) (ledger.Txn, error)) error {
	var txns []ledger.Txn
	for _, p := range partitions {
		t, err := build(p)
		if err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		txns = append(txns, t)
	}
	txn, err := ledger.Merge(txns...)
	if err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	k := &s.keeper
	k.waiting = true
	s.w.transact(&s.proc, what, txn, func(r ledger.TxnResult, err error) error {
		k.waiting = false
		switch {
		case err != nil:
			return nil // the next snapshot shows
		case r.Succeeded:
			k.written = max(k.written, r.Revision)
			return nil
		}
		return s.keepOtherPartitions(what, partitions, txn, r)
	})
	return nil
}

// keepOtherPartitions continues without the partitions whose comparison failed.
func (s *shard) keepOtherPartitions(what string, partitions []int32, txn ledger.Txn, r ledger.TxnResult) error {
	epochs := map[string]int64{}
	for _, kv := range r.Current {
		epochs[kv.Key] = kv.CreateRevision
		s.keeper.written = max(s.keeper.written, kv.ModRevision)
	}
	var rest []int32
	for i, p := range partitions {
		if epochs[roster.KeyOwn(p)] == txn.Compares[i].Revision {
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 || what != "T13" || s.id == 0 {
		return nil
	}
	return s.keep(what, rest, func(p int32) (ledger.Txn, error) {
		return roster.TakePartition(p, roster.Owner{Member: s.member()}, s.id)
	})
}
