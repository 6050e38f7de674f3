package decide

import (
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// deed is a change of a plan: T2 (nominate), T3 (promote), T4 (displace) or T8 (abort). Each is
// decided and sent in one step, on the documents as they are known then, so that it needs no
// look whether they have moved. Between two deeds the placements in hand get their turn.
type deed interface {
	// kind is the transaction's name in the protocol.
	kind() string
	// done takes in that it has been carried out, at a revision.
	done(c *Core, revision int64)
	// undone takes in that it has not been.
	undone(c *Core, lost ledger.Lost)
	// tooLarge takes in that the store does not take a transaction of its size.
	tooLarge(c *Core, why string)
}

// launch sends a deed; an error means that it cannot be made into a transaction. The attempts
// are those whose pods it places, staged until it lands.
func (c *Core) launch(d deed, change ledger.Change, attempts ...*attempt.Attempt) error {
	txn, err := change.Txn()
	if err == nil {
		err = c.limits.check(txn, c.shard.Now)
	}
	if err != nil {
		return fmt.Errorf("scheduler: %s: %w", d.kind(), err)
	}
	c.flights++
	c.flight = &flight{id: c.flights, attempts: attempts, txn: txn, deed: d, change: change}
	c.attempts.Send(attempts)
	c.send()
	return nil
}

// landDeed takes in the answer to a deed.
func (c *Core) landDeed(f *flight, r ledger.TxnResult) error {
	if r.Succeeded {
		c.record.LearningOwn(r.Revision)
		changes, err := c.shard.Ledger.LearnOwn(f.txn, r)
		if err != nil {
			return fmt.Errorf("scheduler: transaction result: %w", err)
		}
		c.note(f.txn, r.Revision)
		if p, ok := f.deed.(*promotion); ok && p.supplied {
			c.written = nil // decisions made meanwhile have counted what the hold had
		}
		f.deed.done(c, r.Revision)
		c.ledgerMoved(changes)
		return nil
	}
	c.record.Learning(r.Current)
	changes, err := c.shard.Ledger.Learn(r.Current)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	c.ledgerMoved(changes)
	lost, err := f.change.Losers(r)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	if f.change.Mandate != nil {
		c.shard.LoseEpochs(lost.Partitions, f.change.Mandate.Epochs)
	}
	if lost.Registry {
		c.cross.hold = max(c.cross.hold, lost.RegistryRevision)
	}
	if lost.Applied {
		f.deed.done(c, lost.AppliedAt)
		return nil
	}
	f.deed.undone(c, lost)
	return nil
}

// ledgerMoved passes on what has changed in the ledger's picture.
func (c *Core) ledgerMoved(changes ledger.ViewChanges) {
	c.shard.View.ApplyLedger(changes)
	c.shard.Claims.FollowLedger(changes)
	c.followPlans(changes)
	c.shard.Avoid.FollowDocs(changes.Docs)
	if len(c.performing.bindable) > 0 {
		for _, uid := range changes.PodUIDs {
			c.seeBound(uid)
		}
	}
}

// act sends the next deed there is, if any. Holds come first: room that is free at last, or
// held for nothing, is worth more than the next plan.
func (c *Core) act() bool {
	if c.shard.Draining || !c.shard.Usable() {
		return false
	}
	return c.tend() || c.releaseOne() || c.seek()
}

// isTooLarge says whether a change is too large for one transaction.
func isTooLarge(err error) bool {
	var txn *ledger.TxnError
	return errors.As(err, &txn) && txn.TooLarge
}

// lostAt is the highest revision of what a change has lost to: nothing is gained by deciding
// again before the watch has got there.
func lostAt(lost ledger.Lost) int64 {
	at := max(lost.RegistryRevision, lost.NamesAt)
	for _, d := range lost.Docs {
		at = max(at, d.Revision)
	}
	for _, b := range lost.Budgets {
		at = max(at, b.Revision)
	}
	for _, p := range lost.Plans {
		at = max(at, p.Revision)
	}
	for _, x := range lost.Exclusives {
		at = max(at, x.Revision)
	}
	for _, revision := range lost.Guards {
		at = max(at, revision)
	}
	return at
}

// lostDeed puts an attempt whose deed was lost back, or gives it back if it has lost too often.
func (c *Core) lostDeed(a *attempt.Attempt, lost ledger.Lost) {
	reason := step.LostNode
	switch {
	case len(lost.Partitions) > 0:
		reason = step.LostPartition
	case len(lost.Guards) > 0:
		reason = step.LostGuard
	case len(lost.Budgets) > 0 && len(lost.Docs) == 0:
		reason = step.LostBudget
	case len(lost.Exclusives) > 0 && len(lost.Docs) == 0:
		reason = step.LostVolume
	}
	c.effects.Report(a.Lost(reason))
	c.record.Lost(a, reason)
	a.Losses++
	if reason == step.LostPartition || a.Doubtful || a.Losses >= MaxLosses {
		c.life.GiveBack(a)
		return
	}
	a.Wait.Revision = max(a.Wait.Revision, lostAt(lost))
	c.life.Again(a)
}

func refOf(e ledger.Entry) events.PodRef {
	return events.PodRef{UID: e.PodUID, Namespace: e.Namespace, Name: e.Name}
}
