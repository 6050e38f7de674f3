package decide

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// flight is one transaction whose answer has not come yet: a T1, with ofTerms one about the
// registry of terms, or a deed.
type flight struct {
	id       uint64
	attempts []*attempt.Attempt
	batch    ledger.PlaceBatch
	txn      ledger.Txn
	sent     int
	// registers: it registers some.
	ofTerms   bool
	registers bool
	// deed is the change of a plan that it makes, nil for none.
	deed   deed
	change ledger.Change
}

// submit sends the staged batch if nothing is in flight. Nodes and terms that attempts wait for go
// first, each time in a transaction of their own; then deeds and batches in turns.
func (c *Core) submit() {
	if c.flight != nil || c.shard.Ledger.Revision() < c.cross.hold || c.admit() || c.register() {
		return
	}
	waiting := c.attempts.Count(attempt.Staged) > 0
	if (!c.plans.alternate || !waiting) && c.act() {
		c.plans.alternate = true
		return
	}
	c.plans.alternate = false
	for c.flight == nil && c.attempts.Count(attempt.Staged) > 0 {
		f, rest := c.build(c.attempts.TakeAll(attempt.Staged))
		c.attempts.Append(attempt.Staged, rest...)
		if len(f.attempts) == 0 {
			continue // all have left it, or it is built again of fewer
		}
		c.flights++
		f.id = c.flights
		c.flight = f
		c.attempts.Send(f.attempts)
		c.send()
	}
}

func (c *Core) send() {
	f := c.flight
	kind := "T1"
	switch {
	case f.ofTerms:
		kind = "T11"
	case f.deed != nil:
		kind = f.deed.kind()
	}
	c.effects.Commit(&step.Commit{ID: f.id, Kind: kind, Pods: len(f.batch.Placed), Resubmitted: f.sent, Txn: f.txn})
	f.sent++
}

// build makes the transaction of a batch: the finished entries of each document are
// handed over on the way (T5). Attempts that cannot be part of it leave it, above all those
// whose document or guards have moved since they were decided: what moved them is not in
// what they counted, and high-waters may be ahead of the facts they saw. (Committing on the
// newest known revision instead overcommits nodes: docs/bugs.md, 1.) The batch ends where
// the transaction is full; the rest keeps its order, because what is in it may have counted
// what comes before. An attempt that fits no transaction, or whose reservation fits no document, fails
// alone.
func (c *Core) build(attempts []*attempt.Attempt) (f *flight, rest []*attempt.Attempt) {
	b := c.newBatch()
	for i, a := range attempts {
		if !c.mayReserve(a) {
			c.life.GiveBack(a)
			continue
		}
		if !c.current(a.Pick) || !c.stands(a) {
			c.life.Again(a)
			continue
		}
		entry, err := a.Entry(c.shard.ID)
		if err != nil {
			c.life.Fail(a, err.Error())
			continue
		}
		if b.full(a) || b.holdsBack(a) {
			rest = attempts[i:]
			break
		}
		added := b.add(a, entry)
		if added == tooMuch {
			rest = attempts[i:]
			break
		}
		switch added {
		case joined, tooMuch:
		case crowded:
			c.crowdedOut(a, b.why)
		case stale:
			c.life.Again(a)
		case impossible:
			c.life.Fail(a, b.why.Error())
		}
	}
	return c.seal(b.flight()), rest
}

// mayReserve reports whether the decision of an attempt may still become a reservation: its
// partition is held in the epoch of the decision, its pod waits without a reservation, and the ledger
// is open. What the
// shard staged in an earlier epoch has not counted what others decided about the pod since, not
// even if the partition has come back (docs/bugs.md, 30).
func (c *Core) mayReserve(a *attempt.Attempt) bool {
	epoch, held := c.shard.Holds(a.Offer.Partition)
	pod, known := c.shard.View.Pod(a.Pod.UID)
	_, _, reserved := c.shard.Ledger.Entry(a.Pod.UID)
	return held && epoch == a.Pick.Epoch && known && pod.NodeName == "" && !reserved && c.shard.Usable()
}

// current says whether the document of a pick is the one it was decided on, or that plus
// this shard's own last flight.
func (c *Core) current(p attempt.Pick) bool {
	now := c.shard.Ledger.Version(p.NodeUID)
	return now == p.Basis ||
		c.written[ledger.KeyNode(p.NodeUID)] == revisions{from: p.Basis.Revision, to: now.Revision}
}

// seal turns the batch into its transaction. One that cannot be made is tried in parts, until the attempt
// is alone that is to blame.
func (c *Core) seal(f *flight) *flight {
	if len(f.attempts) == 0 {
		return f
	}
	txn, err := f.batch.Txn()
	if err != nil {
		c.split(f, err.Error())
		return &flight{}
	}
	f.txn = txn
	return f
}

// land takes in the answer to the transaction in flight.
func (c *Core) land(r step.Result) error {
	f := c.flight
	if f == nil || f.id != r.ID {
		return fmt.Errorf("scheduler: result %d belongs to no transaction in flight", r.ID)
	}
	if r.Err != nil {
		for _, a := range f.attempts {
			a.Doubtful = true
		}
		c.send()
		return nil
	}
	c.flight = nil
	c.attempts.TakeAll(attempt.InFlight)
	if r.Refused != "" {
		c.refused(f, r.Refused)
		return nil
	}
	c.limits.took(f)
	if f.ofTerms {
		c.landTerms(f, r.Txn)
		return nil
	}
	if f.deed != nil {
		return c.landDeed(f, r.Txn)
	}
	if !r.Txn.Succeeded {
		c.record.Learning(r.Txn.Current)
		changes, err := c.shard.Ledger.Learn(r.Txn.Current)
		if err != nil {
			return fmt.Errorf("scheduler: transaction result: %w", err)
		}
		c.ledgerMoved(changes)
		return c.lost(f, r.Txn)
	}
	c.record.LearningOwn(r.Txn.Revision)
	changes, err := c.shard.Ledger.LearnOwn(f.txn, r.Txn)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	c.note(f.txn, r.Txn.Revision)
	c.placed(f.attempts, r.Txn.Revision)
	c.ledgerMoved(changes)
	return nil
}

// note remembers what the flight that has just been carried out did to documents and
// guards it compared.
func (c *Core) note(t ledger.Txn, revision int64) {
	compared := make(map[string]int64, len(t.Compares))
	for _, cmp := range t.Compares {
		compared[cmp.Key] = cmp.Revision
	}
	c.written = make(map[string]revisions, len(t.Puts))
	for _, p := range t.Puts {
		if from, ok := compared[p.Key]; ok {
			c.written[p.Key] = revisions{from: from, to: revision}
		}
	}
}

// wrote reports whether the last flight of this shard brought a document or guard from one revision to another.
func (c *Core) wrote(key string, from, to int64) bool { return c.written[key] == revisions{from, to} }

// placed ends attempts whose reservation stands at revision.
func (c *Core) placed(attempts []*attempt.Attempt, revision int64) {
	for _, a := range attempts {
		if !c.settleDeal(a, revision) {
			continue
		}
		c.record.Placed(a, revision)
		c.missedPlaces(a)
		c.life.Drop(a)
	}
}

// lost sorts a refused batch: attempts whose reservation stands after all (an earlier
// copy of the same transaction was carried out), attempts whose partition is gone or of which an earlier copy
// may have been carried out and undone since (their token is not used again: docs/bugs.md, 27),
// attempts that lost their node, a guard or a pin and are decided again, and the rest,
// which goes again as soon as it can. If it was the registry that moved, that is when the
// watch has told what is registered now.
func (c *Core) lost(f *flight, r ledger.TxnResult) error {
	lost, err := ledger.Losers(f.batch, r)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	if lost.Registry {
		c.cross.hold = max(c.cross.hold, lost.RegistryRevision)
	}
	c.shard.LoseEpochs(lost.Partitions, f.batch.Epochs)
	changed := map[string]bool{}
	for _, d := range lost.Docs {
		changed[d.NodeUID] = true
		if slices.ContainsFunc(f.attempts, func(a *attempt.Attempt) bool { return a.Pick.NodeUID == d.NodeUID }) {
			c.shard.Avoid.Conflict(d.NodeUID, d.NodeName, "", c.shard.Now)
		}
	}
	var losers []loser
	var winners []*attempt.Attempt
	for _, a := range f.attempts {
		doc, entry, reserved := c.shard.Ledger.Entry(a.Offer.Pod.UID)
		needs := f.batch.Needs[a.Token()]
		_, overtaken := lost.Moved(needs.Guards)
		switch {
		case reserved && entry.Token.String() == a.Offer.Token:
			c.placed([]*attempt.Attempt{a}, doc.Revision)
		case slices.Contains(lost.Partitions, a.Offer.Partition):
			c.effects.Report(a.Lost(step.LostPartition))
			c.record.Lost(a, step.LostPartition)
			c.life.GiveBack(a)
		case a.Doubtful:
			c.effects.Report(a.Lost(step.LostNode))
			c.record.Lost(a, step.LostNode)
			c.life.GiveBack(a)
		case reserved:
			losers = append(losers, loser{a, step.LostPod})
		case overtaken:
			losers = append(losers, loser{a, step.LostGuard})
		case changed[a.Pick.NodeUID]:
			losers = append(losers, loser{a, step.LostNode})
		case !lost.Kept(needs):
			losers = append(losers, loser{a, step.LostKeeper})
		case lostVolume(a, lost) > 0:
			a.Wait.Revision = max(a.Wait.Revision, lostVolume(a, lost))
			losers = append(losers, loser{a, step.LostVolume})
		default:
			winners = append(winners, a)
		}
	}
	c.retry(losers, lost)
	c.attempts.Prepend(attempt.Staged, winners...)
	return nil
}

// loser is an attempt that lost a race, and what about.
type loser struct {
	*attempt.Attempt
	reason step.Reason
}

// lostVolume is the revision of the document of a claim or a pool that an attempt has lost to, or of the
// floor; 0 if it has lost none.
func lostVolume(a *attempt.Attempt, lost ledger.Lost) (revision int64) {
	for _, x := range lost.Exclusives {
		if slices.ContainsFunc(a.Pick.Volumes.Holdings(), func(h claims.Holding) bool { return h.Key == x.Key }) {
			revision = max(revision, x.Revision, lost.NamesAt)
		}
	}
	return revision
}

// retry sends attempts that lost a race on, in their order: to the next-best node if nothing
// has moved there, else back to be decided as soon as the watch has told of what they lost to.
// Who has lost turnAfter races for nodes asks to be alone at the last one, and who has lost
// MaxLosses goes back to the queue.
func (c *Core) retry(losers []loser, lost ledger.Lost) {
	for _, l := range slices.Backward(losers) {
		a := l.Attempt
		c.effects.Report(a.Lost(l.reason))
		c.record.Lost(a, l.reason)
		if l.reason == step.LostGuard {
			revision, _ := lost.Moved(a.Pick.Needs.Guards)
			a.Wait.Losses++
			a.Wait.Revision = max(a.Wait.Revision, revision)
			if a.Wait.Losses >= maxGuardLosses {
				c.life.Fail(a, fmt.Sprintf("lost %d races for a rule about pods on other nodes", a.Wait.Losses))
				continue
			}
			c.life.Again(a)
			continue
		}
		a.Losses++
		switch {
		case a.Losses >= MaxLosses:
			c.life.GiveBack(a)
			continue
		case a.Losses == turnAfter && l.reason == step.LostNode:
			c.askTurn(a)
		case l.reason == step.LostNode && !lost.Registry && c.nextBest(a):
			continue
		}
		a.Wait.Revision = max(a.Wait.Revision, lostTo(a, lost))
		c.life.Again(a)
	}
}

// lostTo is the revision of the node's document that an attempt has lost to, 0 if it has not
// lost that.
func lostTo(a *attempt.Attempt, lost ledger.Lost) int64 {
	for _, d := range lost.Docs {
		switch {
		case d.NodeUID != a.Pick.NodeUID:
		case d.Revision == 0:
			return lost.NamesAt
		default:
			return d.Revision
		}
	}
	return 0
}
