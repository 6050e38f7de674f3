package decide

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// markDocs bounds the documents of one mark, so that it fits a transaction beside the hold's
// document and the plan's record; workBytes bounds their bytes. A larger plan takes several.
const markDocs = ledger.MaxTxnOps - 2

// pacing is when the next try may be made, and the pause after that.
type pacing struct {
	due   time.Time
	retry wait.Backoff
}

// plan is a hold or placeholder and what has to go for it, in the binder's eyes. Whoever holds
// the partition of the pod that has the place carries it out; a pod that takes the place over
// takes the plan with it.
//
// Order: the victims that budgets cover are looked at and tried dry → one transaction marks
// all of them Evicting (removal goes on from there). A crash before it leaves claims that
// anybody can drop; after it, whoever finds the marks goes on with each.
type plan struct {
	id string
	op OpID
	pacing
	// gone: nobody has the place any more.
	gone bool
	// since is when the plan was first seen, left when its victim was first seen to have left;
	// both of a move.
	since, left time.Time
}

// planOwner is the pod that has the place of a plan that is to be carried out.
func (c *Core) planOwner(id string) (ledger.NodeDoc, ledger.Entry, bool) {
	if r, ok := c.ledger.Record(id); ledger.IsRecorded(id) && (!ok || r.State != ledger.PlanReady) {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	return c.ledger.PlanOwner(id)
}

// advance does the next thing for the plan.
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

// unmarked are the victims in a document that are to be marked, and whether all of them can be
// by what is known.
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

// mayStillPlace says whether the facts still show a pod that waits for its place. While they do
// not show it at all, they may be late.
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
		// Late or not at all: until the view shows marks, nothing is sent.
		c.pace(&p.pacing)
		return
	}
	p.retry = c.limits.Retry
	p.advance(c)
	for _, r := range c.removalsOf(p.id) {
		r.advance(c)
	}
}

// removalsOf are a plan's victims, in the order of documents and entries.
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

// refused tells the plan's shard that a victim cannot be evicted, and rests the plan: its shard
// drops the victim or the plan, or it is tried again. A move is over then.
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

// conclude tells how a removal ended: to whom asked for it, or else under the plan's token.
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

// planToken is the token that a plan's id was made of.
func planToken(id string) string { return id[max(0, len(id)-len(ledger.Token(0).String())):] }

// preemptor is the pod that a victim goes for, if it is one that waits: a placeholder's
// replacement does not exist yet.
func (c *Core) preemptor(id string) (*state.Pod, ledger.NodeDoc, bool) {
	doc, owner, ok := c.ledger.PlanOwner(id)
	if !ok || owner.Role != ledger.RoleReservation {
		return nil, doc, false
	}
	p, known, _ := c.pod(owner.PodUID, owner.PodRV)
	return p, doc, known
}

// preempted is the event of a victim, in kube-scheduler's words.
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
