package reserve

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A gang has a transaction of its own: all its members are reserved by it, or none. So a gang is limited to what one
// transaction holds (ledger.MaxTxnOps, ledger.MaxTxnBytes).

// buildGang makes the transaction of the gang whose members come first among the attempts; rest are the attempts after
// them. If one member cannot be part of it, the whole gang is decided again, or fails.
func (r *Reserver) buildGang(attempts []*attempt.Attempt) (p *placing, rest []*attempt.Attempt) {
	g := attempts[0].Gang
	if i := slices.IndexFunc(attempts, func(a *attempt.Attempt) bool { return a.Gang != g }); i >= 0 {
		attempts, rest = attempts[:i], attempts[i:]
	}
	b := r.newBatch()
	for _, a := range attempts {
		if !r.mayReserve(a) {
			r.giveGangBack(attempts)
			return &placing{}, rest
		}
		if !r.docUnchanged(a.Pick) || !r.needsUnchanged(a) {
			r.requeueGang(attempts)
			return &placing{}, rest
		}
		entry, err := a.Entry(r.Shard.ID)
		if err != nil {
			r.failGang(attempts, err.Error())
			return &placing{}, rest
		}
		switch b.add(a, entry) {
		case joined:
		case stale:
			r.requeueGang(attempts)
			return &placing{}, rest
		case crowded:
			r.crowdedGang(attempts, b.why)
			return &placing{}, rest
		case impossible:
			r.failGang(attempts, b.why.Error())
			return &placing{}, rest
		case tooMuch:
			r.failGang(attempts, fmt.Sprintf("the gang's reservations would be larger than a transaction of the ledger, "+
				"which holds %d bytes", r.Slot.Limits.BatchBytes(r.Shard.Now)))
			return &placing{}, rest
		}
	}
	if ops := b.ops(); ops > ledger.MaxTxnOps {
		r.failGang(attempts, fmt.Sprintf("the gang needs %d operations of one transaction of the ledger, at most %d are "+
			"accepted: its %d members are on %d nodes", ops, ledger.MaxTxnOps, len(attempts), len(b.drafts)))
		return &placing{}, rest
	}
	p, err := b.seal()
	if err != nil {
		r.failGang(attempts, err.Error())
		return &placing{}, rest
	}
	p.gang = g
	return p, rest
}

// ops returns how many operations the transaction of a batch has.
func (b *batch) ops() int {
	const registry = 1
	return b.place.Ops() + len(b.drafts) + b.firsts + len(b.exclusives) + registry
}

// leadOf returns the attempt that the queue has leased, and takes it out of the members; the attempts at the others
// end. The lead need not be among the members: a lead without a node has its own verdict.
func (r *Reserver) leadOf(members []*attempt.Attempt) (lead *attempt.Attempt) {
	for _, a := range members {
		if a.Gang.Lead == a {
			a.Gang = nil
			lead = a
			continue
		}
		r.Life.Drop(a)
	}
	return lead
}

// giveGangBack returns a gang to the queue untried.
func (r *Reserver) giveGangBack(members []*attempt.Attempt) {
	if lead := r.leadOf(members); lead != nil {
		r.Life.GiveBack(lead)
	}
}

// requeueGang has a gang decided again.
func (r *Reserver) requeueGang(members []*attempt.Attempt) {
	if lead := r.leadOf(members); lead != nil {
		r.Life.Requeue(lead)
	}
}

// crowdedGang handles a gang for whose members a document has no room: it waits until something has changed, and fails
// after some tries.
func (r *Reserver) crowdedGang(members []*attempt.Attempt, why error) {
	if g := members[0].Gang; g.Lead.Losses+1 >= attempt.MaxLosses {
		r.failGang(members, why.Error())
		return
	}
	lead := r.leadOf(members)
	if lead == nil {
		return
	}
	lead.Losses++
	r.Life.Unstage(lead)
	lead.Pick = attempt.Pick{}
	lead.Advice.Forget()
	r.Life.Defer(lead)
}

// failGang ends the try of a gang with an error, which all its members get, unless their condition shows it already.
func (r *Reserver) failGang(members []*attempt.Attempt, why string) {
	for _, a := range members {
		if a != a.Gang.Lead && !gang.Shows(a.Pod, why) {
			r.Record.Failed(a, why)
		}
	}
	r.Effects.ReportGang(members[0].Gang.Lead.GangReport(step.Failed))
	if lead := r.leadOf(members); lead != nil {
		r.Life.Fail(lead, why)
	}
}

// gangLost continues with a gang whose transaction was refused: it is placed after all, if an earlier copy of the
// transaction was committed; else it is decided again once the watch shows what it has lost to.
func (r *Reserver) gangLost(p *placing, lost txns.Outcome) {
	first := p.attempts[0]
	doc, entry, reserved := r.Shard.Ledger.Entry(first.Offer.Pod.UID)
	if reserved && entry.Token.String() == first.Offer.Token {
		r.placed(p.attempts, doc.Revision)
		return
	}
	reason := step.LostNode
	switch {
	case slices.Contains(lost.Partitions, first.Offer.Partition):
		reason = step.LostPartition
	case reserved:
		reason = step.LostPod
	}
	lead := p.gang.Lead
	losses := lead.Losses + 1
	doubtful := slices.ContainsFunc(p.attempts, func(a *attempt.Attempt) bool { return a.Doubtful })
	for _, a := range p.attempts {
		r.Record.Lost(a, reason)
	}
	r.Contention.Lost(r.Shard.Now)
	r.Effects.Report(first.Lost(reason))
	lead.Losses = losses
	lead.Wait.Revision = max(lead.Wait.Revision, lostAt(p.attempts, lost))
	if reason == step.LostPartition || doubtful || losses >= attempt.MaxLosses {
		r.giveGangBack(p.attempts)
		return
	}
	r.requeueGang(p.attempts)
}

// lostAt returns the highest revision that attempts have lost to.
func lostAt(attempts []*attempt.Attempt, lost txns.Outcome) (revision int64) {
	for _, a := range attempts {
		guard, _ := lost.Moved(a.Pick.Needs.Guards)
		revision = max(revision, lostRevision(a, lost), lostVolume(a, lost), guard)
	}
	return revision
}
