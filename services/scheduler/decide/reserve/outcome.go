package reserve

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// placed ends attempts whose reservations have been committed at revision.
func (r *Reserver) placed(attempts []*attempt.Attempt, revision int64) {
	if g := attempts[0].Gang; g != nil {
		r.Effects.ReportGang(g.Lead.GangReport(step.Scheduled))
	}
	for _, a := range attempts {
		if !r.OnCommitted(a, revision) {
			continue
		}
		r.Record.Placed(a, revision)
		r.ReleaseUnfit(a)
		r.Life.Drop(a)
	}
}

// Undone sorts the attempts of a refused batch: attempts whose reservation exists after all, because an earlier copy
// of the same transaction was committed; attempts whose partition is lost, or of which an earlier copy may have been
// committed and undone since (their token is not used again: docs/bugs.md, 27); attempts that lost their node, a
// guard or a pin, and are decided again; and the rest, which is sent again as soon as possible. If the registry has
// changed, that is once the watch shows the terms registered now.
func (p *placing) Undone(lost txns.Outcome) {
	r := p.by
	r.Contention.Answered(r.Shard.Now)
	if p.gang != nil {
		r.gangLost(p, lost)
		return
	}
	// A document that changed under a decision is a disagreement about its node: many of them put the node into
	// quarantine.
	changed := map[string]bool{}
	for _, d := range lost.Docs {
		changed[d.NodeUID] = true
		if slices.ContainsFunc(p.attempts, func(a *attempt.Attempt) bool { return a.Pick.NodeUID == d.NodeUID }) {
			r.Shard.Avoid.RecordConflict(d.NodeUID, d.NodeName, "", r.Shard.Now)
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

// loser is an attempt that lost a race, with the reason for metrics and the record.
type loser struct {
	*attempt.Attempt
	reason step.Reason
}

// lostVolume returns the revision of the document of a claim or a pool that an attempt has lost to, or of the floor;
// 0 if it has lost none.
func lostVolume(a *attempt.Attempt, lost txns.Outcome) (revision int64) {
	for _, x := range lost.Exclusives {
		if slices.ContainsFunc(a.Pick.Volumes.Holdings(), func(h claims.Holding) bool { return h.Key == x.Key }) {
			revision = max(revision, x.Revision, lost.NamesAt)
		}
	}
	return revision
}

// retry continues with attempts that lost a race, in their order: on the next-best node if nothing has changed
// there, otherwise by another decision as soon as the watch shows the change that they lost to. An attempt that has
// lost turnAfter races for nodes asks for a turn at the last one. One that has lost attempt.MaxLosses is given back
// to the queue.
func (r *Reserver) retry(losers []loser, lost txns.Outcome) {
	for _, l := range slices.Backward(losers) {
		a := l.Attempt
		if l.reason == step.LostNode {
			r.Contention.Lost(r.Shard.Now)
		}
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
			r.Life.Requeue(a)
			continue
		}
		a.Losses++
		switch {
		case a.Losses >= attempt.MaxLosses:
			r.Life.GiveBack(a)
			continue
		case a.Losses == turnAfter && l.reason == step.LostNode:
			r.RequestTurn(a)
		case l.reason == step.LostNode && !lost.Registry && r.nextBest(a):
			continue
		}
		a.Wait.Revision = max(a.Wait.Revision, lostRevision(a, lost))
		r.Life.Requeue(a)
	}
}

// lostRevision returns the revision of the node's document that an attempt has lost to, 0 if it has not lost the node.
func lostRevision(a *attempt.Attempt, lost txns.Outcome) int64 {
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

// split retries a batch that could not be committed in smaller parts, in their order. An attempt that is alone in
// its part fails. An attempt of which an earlier copy may have been committed is given back, as after a lost race.
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

// crowdedOut handles an attempt on a node whose document has no room for it: it moves to the next-best node, or is
// deferred until something has changed. A node whose document is full for any pod is avoided by all
// (ledger.NodeDoc.HasRoom).
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
		a.Advice.Forget()
		r.Life.Defer(a)
	}
}

// turnAfter is after how many lost races an attempt asks for a turn at the node that it lost last (avoid.Turns).
const turnAfter = 3

// maxGuardLosses is how many races for a guard one attempt may lose before it fails. Another placement in the same
// domain won each of these races, so they show that other pods make progress, not that something is wrong.
const maxGuardLosses = 64
