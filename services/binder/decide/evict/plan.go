package evict

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
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
	// gone means that no pod has the place any more.
	gone bool
	// since is when the plan was first seen. left is when the victim of a move was first seen to have left.
	since, left time.Time
}

// planOwner returns the pod that has the place of a plan that must be carried out.
func (v *Evictor) planOwner(id string) (ledger.NodeDoc, ledger.Entry, bool) {
	if r, ok := v.Ledger.Plans().Record(id); ledger.IsRecorded(id) && (!ok || r.State != ledger.PlanReady) {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	return v.Ledger.Plans().Owner(id)
}

// advance takes the plan's next step.
func (p *plan) advance(v *Evictor) {
	doc, owner, ok := v.planOwner(p.id)
	if !ok || p.gone || v.Facts.Cluster == nil || !v.MayAct(owner.PodUID) {
		return
	}
	v.nominations.Nominate(doc, owner)
	if p.op != 0 || v.Now.Before(p.Due) {
		return
	}
	if owner.Role == ledger.RoleMove && (p.endMove(v, owner) || !v.askedToMove(p.id, owner)) || !v.mayStillPlace(owner) {
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

// unmarked returns the victims in a document that must be marked, and whether all of them can be marked now.
func (p *plan) unmarked(v *Evictor, d ledger.NodeDoc) (victims []string, ready bool) {
	ready = true
	for _, e := range d.Entries {
		if e.Role != ledger.RoleVictim || e.Plan != p.id || e.State == ledger.Evicting || v.Fate(e) != txns.Staying {
			continue
		}
		victims = append(victims, e.PodUID)
		r, ok := v.removals[e.PodUID]
		ready = ready && ok && r.plan == p.id && r.checksDone(v)
	}
	return victims, ready
}

// mayStillPlace reports whether the facts still show a pod that waits for its place. If they do not show the pod at
// all, they may be late.
func (v *Evictor) mayStillPlace(owner ledger.Entry) bool {
	p, known, _ := v.Pod(owner.PodUID, owner.PodRV)
	if owner.Role == ledger.RoleMove {
		return known
	}
	return known && p.NodeName == "" && !p.Deleting && !p.Terminal
}

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

// removalsOf returns the removals of a plan, in the order of documents and entries.
func (v *Evictor) removalsOf(id string) []*removal {
	var out []*removal
	for _, d := range v.Ledger.Plans().Docs(id) {
		for _, e := range d.Entries {
			if r, ok := v.removals[e.PodUID]; ok && e.Role == ledger.RoleVictim && e.Plan == id {
				out = append(out, r)
			}
		}
	}
	return out
}

// refused reports to the plan's shard that a victim cannot be evicted, and rests the plan: the shard drops the victim
// or the plan, or the plan is tried again. A move ends then.
func (v *Evictor) refused(r *removal, problem string) {
	r.conclude(v, events.DecisionEvictRefused, problem)
	if _, owner, ok := v.Ledger.Plans().Owner(r.plan); ok && owner.Role == ledger.RoleMove {
		if p, ok := v.plans[r.plan]; ok {
			p.advance(v)
		}
		return
	}
	r.Due = v.Now.Add(v.Limits.PlanPause)
	if p, ok := v.plans[r.plan]; ok {
		p.Due = r.Due
	}
}

// conclude publishes how a removal ended: through the eviction that requested it, or else under the plan's token.
func (r *removal) conclude(v *Evictor, kind events.DecisionKind, message string) {
	if e, ok := v.askedFor(r); ok {
		e.finish(v, kind, message)
		return
	}
	d := events.Decision{Kind: kind, Pod: r.ref(), Token: PlanToken(r.plan), NodeUID: r.nodeUID, Message: message}
	if doc, owner, ok := v.Ledger.Plans().Owner(r.plan); ok {
		d.SchedulerName = owner.SchedulerName
		if doc.NodeUID == r.nodeUID {
			d.NodeName = doc.NodeName
		}
	}
	v.Publish(d)
}

// PlanToken returns the token from which a plan's id was derived.
func PlanToken(id string) string { return id[max(0, len(id)-len(ledger.Token(0).String())):] }

// preemptor returns the pod for which a victim is evicted, if that pod exists: a placeholder's replacement does not
// exist yet.
func (v *Evictor) preemptor(id string) (*state.Pod, ledger.NodeDoc, bool) {
	doc, owner, ok := v.Ledger.Plans().Owner(id)
	if !ok || owner.Role != ledger.RoleReservation {
		return nil, doc, false
	}
	p, known, _ := v.Pod(owner.PodUID, owner.PodRV)
	return p, doc, known
}

// preempted emits the event for a victim, in kube-scheduler's words.
func (r *removal) preempted(v *Evictor) {
	p, doc, ok := v.preemptor(r.plan)
	if !ok {
		return
	}
	v.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: p.SchedulerName, Type: "Normal", Reason: "Preempted", Action: "Preempting",
		Note:    fmt.Sprintf("Preempted by pod %s on node %s", p.UID, doc.NodeName),
		Related: events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
	})
}
