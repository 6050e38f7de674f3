package reserve

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// placed ends attempts whose reservation stands at revision.
func (r *Reserver) placed(attempts []*attempt.Attempt, revision int64) {
	for _, a := range attempts {
		if !r.Settle(a, revision) {
			continue
		}
		r.Record.Placed(a, revision)
		r.Missed(a)
		r.Life.Drop(a)
	}
}

// Undone sorts a refused batch: attempts whose reservation stands after all (an earlier
// copy of the same transaction was carried out), attempts whose partition is gone or of which an earlier copy
// may have been carried out and undone since (their token is not used again: docs/bugs.md, 27),
// attempts that lost their node, a guard or a pin and are decided again, and the rest,
// which goes again as soon as it can. If it was the registry that moved, that is when the
// watch shows what is registered now.
func (p *placing) Undone(lost txns.Outcome) {
	r := p.by
	changed := map[string]bool{}
	for _, d := range lost.Docs {
		changed[d.NodeUID] = true
		if slices.ContainsFunc(p.attempts, func(a *attempt.Attempt) bool { return a.Pick.NodeUID == d.NodeUID }) {
			r.Shard.Avoid.Conflict(d.NodeUID, d.NodeName, "", r.Shard.Now)
		}
	}
	var losers []loser
	var winners []*attempt.Attempt
	for _, a := range p.attempts {
		doc, entry, reserved := r.Shard.Ledger.Entry(a.Offer.Pod.UID)
		needs := p.batch.Needs[a.Token()]
		_, overtaken := lost.Moved(needs.Guards)
		switch {
		case reserved && entry.Token.String() == a.Offer.Token:
			r.placed([]*attempt.Attempt{a}, doc.Revision)
		case slices.Contains(lost.Partitions, a.Offer.Partition):
			r.Effects.Report(a.Lost(step.LostPartition))
			r.Record.Lost(a, step.LostPartition)
			r.Life.GiveBack(a)
		case a.Doubtful:
			r.Effects.Report(a.Lost(step.LostNode))
			r.Record.Lost(a, step.LostNode)
			r.Life.GiveBack(a)
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
	r.retry(losers, lost)
	r.Attempts.Prepend(attempt.Staged, winners...)
}

// loser is an attempt that lost a race, and what about.
type loser struct {
	*attempt.Attempt
	reason step.Reason
}

// lostVolume is the revision of the document of a claim or a pool that an attempt has lost to, or of the
// floor; 0 if it has lost none.
func lostVolume(a *attempt.Attempt, lost txns.Outcome) (revision int64) {
	for _, x := range lost.Exclusives {
		if slices.ContainsFunc(a.Pick.Volumes.Holdings(), func(h claims.Holding) bool { return h.Key == x.Key }) {
			revision = max(revision, x.Revision, lost.NamesAt)
		}
	}
	return revision
}

// retry sends attempts that lost a race on, in their order: to the next-best node if nothing
// has moved there, else back to be decided as soon as the watch shows what they lost to.
// Who has lost turnAfter races for nodes asks to be alone at the last one, and who has lost
// attempt.MaxLosses goes back to the queue.
func (r *Reserver) retry(losers []loser, lost txns.Outcome) {
	for _, l := range slices.Backward(losers) {
		a := l.Attempt
		r.Effects.Report(a.Lost(l.reason))
		r.Record.Lost(a, l.reason)
		if l.reason == step.LostGuard {
			revision, _ := lost.Moved(a.Pick.Needs.Guards)
			a.Wait.Losses++
			a.Wait.Revision = max(a.Wait.Revision, revision)
			if a.Wait.Losses >= maxGuardLosses {
				r.Life.Fail(a, fmt.Sprintf("lost %d races for a rule about pods on other nodes", a.Wait.Losses))
				continue
			}
			r.Life.Again(a)
			continue
		}
		a.Losses++
		switch {
		case a.Losses >= attempt.MaxLosses:
			r.Life.GiveBack(a)
			continue
		case a.Losses == turnAfter && l.reason == step.LostNode:
			r.AskTurn(a)
		case l.reason == step.LostNode && !lost.Registry && r.nextBest(a):
			continue
		}
		a.Wait.Revision = max(a.Wait.Revision, lostTo(a, lost))
		r.Life.Again(a)
	}
}

// lostTo is the revision of the node's document that an attempt has lost to, 0 if it has not
// lost that.
func lostTo(a *attempt.Attempt, lost txns.Outcome) int64 {
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

// split has a batch that could not be carried out tried in parts, in their order; the attempt that is
// alone in one fails. One of which an earlier copy may have been carried out is given back, as when it
// has lost.
func (r *Reserver) split(attempts []*attempt.Attempt, why string) {
	if len(attempts) == 1 && !attempts[0].Doubtful {
		r.Life.Fail(attempts[0], why)
		return
	}
	r.Slot.Limits.Halve(len(attempts))
	rest := slices.Clone(attempts)
	for _, a := range attempts {
		if a.Doubtful {
			r.Life.GiveBack(a)
		}
	}
	rest = slices.DeleteFunc(rest, func(a *attempt.Attempt) bool { return a.Doubtful })
	r.Attempts.Prepend(attempt.Staged, rest...)
}

// crowdedOut sends an attempt on whose node has no room for it in its document: to the next-best one, or
// back to be decided again when something has moved. A node whose document is full for any pod is left
// alone by all (ledger.NodeDoc.HasRoom).
func (r *Reserver) crowdedOut(a *attempt.Attempt, why error) {
	a.Losses++
	switch {
	case r.Shard.Draining:
		r.Life.GiveBack(a)
	case a.Losses >= attempt.MaxLosses:
		r.Life.Fail(a, why.Error())
	case r.nextBest(a):
	default:
		r.Life.Unstage(a)
		a.Pick = attempt.Pick{}
		a.Counsel.Forget()
		r.Life.Defer(a)
	}
}

// turnAfter is how many lost races make an attempt ask for a turn at the node that it lost last (avoid.Turns).
const turnAfter = 3

// maxGuardLosses is how many races for a guard one attempt may lose before it ends as
// failed. Each was won by another placement in the same domain, so they say that others
// get on, not that something is wrong.
const maxGuardLosses = 64
