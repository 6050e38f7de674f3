package evict

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// markDocs bounds the documents of one mark, so that it fits into a transaction together with the hold's document and
// the plan's record; basis.BatchBytes bounds their size. A larger plan takes several transactions.
const markDocs = ledger.MaxTxnOps - 2

// plan is the binder's view of a hold or placeholder and its victims. The binder that holds the partition of the pod
// with the place carries it out; a pod that takes the place over takes the plan with it.
//
// Order: the victims that budgets cover are read and dry-run → one transaction marks all of them Evicting (removal
// continues from there). A crash before it leaves claims that any process can drop; after it, the next binder that
// finds the marks continues with each.
type plan struct {
	id string
	op effect.OpID
	basis.Pacing
	// ended means that no pod has the place any more.
	ended bool
	// since is when the plan was first seen. leftAt is when the victim of a move was first seen to have left.
	since, leftAt time.Time
}

// advance takes the plan's next step. It waits until every victim that is not marked yet has passed its checks, and
// then marks as many of their documents as one transaction may change. Nothing is marked for a pod that does not wait
// for its place any more.
func (p *plan) advance(v *Evictor) {
	doc, owner, ok := planOwner(v.Base, p.id)
	if !ok || p.ended || v.Facts.Cluster == nil || !v.MayAct(owner.PodUID) {
		return
	}
	v.nominations.Nominate(doc, owner)
	if p.op != 0 || v.Now.Before(p.Due) {
		return
	}
	if owner.Role == ledger.RoleMove && (p.endMove(v, owner) || !v.moveRequested(p.id, owner)) {
		return
	}
	if !mayStillPlace(v.Base, owner) {
		return
	}
	mark := txns.EvictPlan{Plan: p.id, Owner: doc, Sender: v.ID}
	waits, bytes := false, 0
	for _, d := range v.Ledger.Plans().Docs(p.id) {
		victims, ready := p.unmarked(v, d)
		waits = waits || !ready
		fits := len(mark.Docs) < v.Batches.Most(markDocs) && (bytes == 0 || bytes+d.Weight() <= basis.BatchBytes)
		if len(victims) > 0 && fits {
			bytes += d.Weight()
			mark.Docs = append(mark.Docs, d)
			mark.Victims = append(mark.Victims, victims...)
		}
	}
	if waits || len(mark.Victims) == 0 {
		return
	}
	if r, ok := v.Ledger.Plans().Record(p.id); ok {
		mark.Record = &r
	}
	change, err := txns.MarkEvicting(mark)
	if err != nil {
		v.Fault("mark of plan "+p.id, err)
		p.Pause(v.Now)
		return
	}
	if p.op = v.amend(p, change, "evict-mark"); p.op == 0 {
		p.Pause(v.Now)
	}
}

// unmarked returns the victims in a document that must be marked, and whether all of them can be marked now. They
// cannot while one of them is declined: then the others would leave for nothing. The plan's shard gives it up.
func (p *plan) unmarked(v *Evictor, d ledger.NodeDoc) (victims []string, ready bool) {
	ready = true
	for _, e := range d.Entries {
		if e.Role != ledger.RoleVictim || e.Plan != p.id || e.State == ledger.Evicting || v.Fate(e) != txns.Staying {
			continue
		}
		victims = append(victims, e.PodUID)
		r, ok := v.removals[e.PodUID]
		ready = ready && ok && r.plan == p.id && r.checksDone(v) && !declined(v, r)
	}
	return victims, ready
}

// answered handles the end of a mark, or of a move's abort, which shows in the view by now. If the mark did not cover
// all documents, the next one follows.
func (p *plan) answered(v *Evictor, in effect.Input) {
	p.op = 0
	a, ok := in.(effect.Amended)
	if !ok {
		return
	}
	v.Batches.Learn(a.Result)
	if a.Result == effect.TxnUnknown || a.Result == effect.TxnRefused {
		// The transaction may apply late or not at all: until the view shows marks, nothing is sent.
		p.Pause(v.Now)
		return
	}
	p.Retry = v.Limits.Retry
	p.advance(v)
	for _, r := range v.removalsOf(p.id) {
		r.advance(v)
	}
}
