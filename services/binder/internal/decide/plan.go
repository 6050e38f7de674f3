package decide

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// markDocs bounds the documents of one mark, so that it fits into a transaction together with the hold's document and
// the plan's record; workBytes bounds their size. A larger plan takes several transactions.
const markDocs = ledger.MaxTxnOps - 2

// pacing is when the next try may be made, and the backoff after that.
type pacing struct {
	due   time.Time
	retry wait.Backoff
}

// plan is the binder's view of a hold or placeholder and its victims. The binder that holds the partition of the pod
// with the place carries it out; a pod that takes the place over takes the plan with it.
//
// Order: the victims that budgets cover are read and dry-run → one transaction marks all of them Evicting (removal
// continues from there). A crash before it leaves claims that any process can drop; after it, the next binder that
// finds the marks continues with each.
type plan struct {
	id string
	op OpID
	pacing
	// gone means that no pod has the place any more.
	gone bool
	// since is when the plan was first seen. left is when the victim of a move was first seen to have left.
	since, left time.Time
}

// planOwner returns the pod that has the place of a plan that must be carried out.
func (c *Core) planOwner(id string) (ledger.NodeDoc, ledger.Entry, bool) {
	if r, ok := c.ledger.Record(id); ledger.IsRecorded(id) && (!ok || r.State != ledger.PlanReady) {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	return c.ledger.PlanOwner(id)
}

// advance takes the plan's next step.
func (p *plan) advance(c *Core) {
	doc, owner, ok := c.planOwner(p.id)
	if !ok || p.gone || c.facts.Cluster == nil || !c.mayAct(owner.PodUID) {
		return
	}
	c.mirrorHold(doc, owner)
	if p.op != 0 || c.now.Before(p.due) {
		return
	}
	if owner.Role == ledger.RoleMove && (p.endMove(c, owner) || !c.askedToMove(p.id, owner)) || !c.mayStillPlace(owner) {
		return
	}
	mark := ledger.EvictPlan{Plan: p.id, Owner: doc, Sender: c.id}
	waits, bytes := false, 0
	for _, d := range c.ledger.PlanDocs(p.id) {
		victims, ready := p.unmarked(c, d)
		waits = waits || !ready
		fits := len(mark.Docs) < c.atOnce.most(markDocs) && (bytes == 0 || bytes+d.Weight() <= workBytes)
		if len(victims) > 0 && fits {
			bytes += d.Weight()
			mark.Docs = append(mark.Docs, d)
			mark.Victims = append(mark.Victims, victims...)
		}
	}
	if waits || len(mark.Victims) == 0 {
		return
	}
	if r, ok := c.ledger.Record(p.id); ok {
		mark.Record = &r
	}
	change, err := ledger.MarkEvicting(mark)
	if err != nil {
		c.fault("mark of plan "+p.id, err)
		c.pace(&p.pacing)
		return
	}
	if p.op = c.amend(p, change, "evict-mark"); p.op == 0 {
		c.pace(&p.pacing)
	}
}

// unmarked returns the victims in a document that must be marked, and whether all of them can be marked now.
func (p *plan) unmarked(c *Core, d ledger.NodeDoc) (victims []string, ready bool) {
	ready = true
	for _, e := range d.Entries {
		if e.Role != ledger.RoleVictim || e.Plan != p.id || e.State == ledger.Evicting || c.fate(e) != ledger.Staying {
			continue
		}
		victims = append(victims, e.PodUID)
		r, ok := c.removals[e.PodUID]
		ready = ready && ok && r.plan == p.id && r.clear(c)
	}
	return victims, ready
}

// mayStillPlace reports whether the facts still show a pod that waits for its place. If they do not show the pod at
// all, they may be late.
func (c *Core) mayStillPlace(owner ledger.Entry) bool {
	p, known, _ := c.pod(owner.PodUID, owner.PodRV)
	if owner.Role == ledger.RoleMove {
		return known
	}
	return known && p.NodeName == "" && !p.Deleting && !p.Terminal
}

func (p *plan) answered(c *Core, in Input) {
	p.op = 0
	a, ok := in.(Amended)
	if !ok {
		return
	}
	c.atOnce.learn(a.Result)
	if a.Result == TxnUnknown || a.Result == TxnRefused {
		// The transaction may apply late or not at all: until the view shows marks, nothing is sent.
		c.pace(&p.pacing)
		return
	}
	p.retry = c.limits.Retry
	p.advance(c)
	for _, r := range c.removalsOf(p.id) {
		r.advance(c)
	}
}

// removalsOf returns the removals of a plan, in the order of documents and entries.
func (c *Core) removalsOf(id string) []*removal {
	var out []*removal
	for _, d := range c.ledger.PlanDocs(id) {
		for _, e := range d.Entries {
			if r, ok := c.removals[e.PodUID]; ok && e.Role == ledger.RoleVictim && e.Plan == id {
				out = append(out, r)
			}
		}
	}
	return out
}

// refused reports to the plan's shard that a victim cannot be evicted, and rests the plan: the shard drops the victim
// or the plan, or the plan is tried again. A move ends then.
func (c *Core) refused(r *removal, problem string) {
	r.conclude(c, events.DecisionEvictRefused, problem)
	if _, owner, ok := c.ledger.PlanOwner(r.plan); ok && owner.Role == ledger.RoleMove {
		if p, ok := c.plans[r.plan]; ok {
			p.advance(c)
		}
		return
	}
	r.due = c.now.Add(c.limits.PlanPause)
	if p, ok := c.plans[r.plan]; ok {
		p.due = r.due
	}
}

// conclude publishes how a removal ended: through the eviction that requested it, or else under the plan's token.
func (r *removal) conclude(c *Core, kind events.DecisionKind, message string) {
	if e, ok := c.askedFor(r); ok {
		e.finish(c, kind, message)
		return
	}
	d := events.Decision{Kind: kind, Pod: r.ref(), Token: planToken(r.plan), NodeUID: r.nodeUID, Message: message}
	if doc, owner, ok := c.ledger.PlanOwner(r.plan); ok {
		d.SchedulerName = owner.SchedulerName
		if doc.NodeUID == r.nodeUID {
			d.NodeName = doc.NodeName
		}
	}
	c.publish(d)
}

// planToken returns the token from which a plan's id was derived.
func planToken(id string) string { return id[max(0, len(id)-len(ledger.Token(0).String())):] }

// preemptor returns the pod for which a victim is evicted, if that pod exists: a placeholder's replacement does not
// exist yet.
func (c *Core) preemptor(id string) (*state.Pod, ledger.NodeDoc, bool) {
	doc, owner, ok := c.ledger.PlanOwner(id)
	if !ok || owner.Role != ledger.RoleReservation {
		return nil, doc, false
	}
	p, known, _ := c.pod(owner.PodUID, owner.PodRV)
	return p, doc, known
}

// preempted emits the event for a victim, in kube-scheduler's words.
func (r *removal) preempted(c *Core) {
	p, doc, ok := c.preemptor(r.plan)
	if !ok {
		return
	}
	c.emit(Report{
		Pod: r.ref(), SchedulerName: p.SchedulerName, Type: "Normal", Reason: "Preempted", Action: "Preempting",
		Note:    fmt.Sprintf("Preempted by pod %s on node %s", p.UID, doc.NodeName),
		Related: events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
	})
}
