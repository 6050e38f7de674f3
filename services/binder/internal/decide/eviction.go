package decide

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// eviction is one decision to evict, handled once per (pod UID, token). It claims the pod, and the disruption that
// its eviction takes from budgets, in the ledger, unless a plan of that token has done so (a move). What follows is
// that claim's removal, which reports the outcome.
//
// Order: claim → read, dry run, eviction → outcome in the log. A crash before the claim leaves nothing: the decision
// stays in the log, other binders remember it until its outcome, and the binder that takes over the partition starts
// again. For a crash after the claim, see removal.
type eviction struct {
	key   attempt
	asked events.Decision
	op    OpID
	// done means that an outcome is in the log; the eviction is then kept, from since on, to detect redelivery.
	// failed means that by this outcome the pod stays.
	done, failed bool
	since        time.Time
	// void means that the ledger began a new generation while the claim was in flight.
	void bool
	pacing
}

// askedFor returns the eviction that requested a removal, if one did: a move's eviction has the token of its
// placeholder.
func (c *Core) askedFor(r *removal) (*eviction, bool) {
	token, err := ledger.ParseToken(planToken(r.plan))
	if err != nil {
		return nil, false
	}
	e, ok := c.evictions[attempt{r.claim.PodUID, token}]
	return e, ok
}

// beginsAnew is the reason for refusing evictions that were decided before this generation of the ledger.
const beginsAnew = "the ledger begins anew"

func (c *Core) evictionWanted(key attempt, d events.Decision) {
	if _, known := c.evictions[key]; known {
		return
	}
	if !c.holds(key.pod) && len(c.evictions) >= c.limits.Foreign {
		c.dropped++
		return
	}
	e := &eviction{key: key, asked: d, since: c.now, pacing: pacing{retry: c.limits.Retry}}
	c.evictions[key] = e
	e.advance(c)
}

// evictionSettled records that an outcome is in the log, from any binder. A claim that is in flight is given back
// once it is in the ledger.
func (c *Core) evictionSettled(key attempt, failed bool) {
	if e, ok := c.evictions[key]; ok && !e.done {
		e.done = true
		e.failed = failed
		e.since = c.now
		c.advancePlan(e.plan())
	}
}

// moves reports whether a place is kept for the replacement: then the eviction belongs to a plan, and must not happen
// without it.
func (e *eviction) moves() bool { return e.asked.LedgerRevision > 0 }

// plan returns the id of the plan of a move.
func (e *eviction) plan() string { return ledger.PlanID(e.key.token, false) }

func (e *eviction) advance(c *Core) {
	if e.done || e.op != 0 || c.facts.Cluster == nil || c.now.Before(e.due) || !c.mayAct(e.key.pod) {
		return
	}
	if c.ledger.Revision() == 0 || c.ledger.Revision() < e.asked.LedgerRevision {
		return // the decision used a later ledger revision than this binder has
	}
	p, known, _ := c.pod(e.key.pod, 0)
	_, claim, claimed := c.ledger.Victim(e.key.pod)
	ours := claimed && planToken(claim.Plan) == e.key.token.String()
	switch {
	case e.asked.FactEpoch != 0 && e.asked.FactEpoch <= c.ledger.Generation().FactsAfter:
		e.finish(c, events.DecisionEvictRefused, beginsAnew)
	case c.ended(e.asked.NotAfter) && !(ours && claim.State == ledger.Evicting) && known && !p.Deleting:
		e.finish(c, events.DecisionEvictRefused, fmt.Sprintf("not carried out by %s, when the order ended: it is %s here",
			e.asked.NotAfter.Format(time.RFC3339), c.now.UTC().Format(time.RFC3339)))
	case !known && (c.facts.Sequence < e.asked.FactSequence || !c.facts.PodProgressKnown):
		// The decision used later facts than this binder has, or the facts are being republished.
	case !known || p.Deleting:
		e.left(c, known)
	case p.Terminal:
		e.remove(c)
	case e.moves():
		e.move(c, claim)
	case ours:
		// Its removal continues.
	case claimed:
		e.finish(c, events.DecisionEvictRefused, "the pod is a victim of plan "+claim.Plan)
	default:
		e.claim(c, p)
	}
}

// left concludes an eviction whose pod is being deleted or gone. If the eviction was sent from here, its answer
// decides whether it is the cause: the facts may be faster.
func (e *eviction) left(c *Core, known bool) {
	r, ok := c.removals[e.key.pod]
	switch {
	case ok && r.op != 0:
		c.pace(&e.pacing) // the answer concludes it, or says nothing
	case ok && r.sent:
		e.finish(c, events.DecisionEvicted, "")
	case known:
		e.finish(c, events.DecisionEvicted, "the pod was being deleted already")
	default:
		e.finish(c, events.DecisionEvicted, "the pod was gone already")
	}
}

// remove evicts a pod that has ended. Such a pod takes no room and counts in no budget, so nothing is claimed for it:
// its claim would be dropped at once, like that of a pod that has left. If it is sent twice, the second call finds
// the pod gone.
func (e *eviction) remove(c *Core) {
	e.op = c.start(e)
	c.emit(Evict{
		Op: e.op, Pod: e.asked.Pod, GracePeriodSeconds: e.asked.GracePeriodSeconds,
		Strategy: e.asked.Strategy, TraceParent: e.asked.TraceParent,
	})
}

// removed handles the answer to remove.
func (e *eviction) removed(c *Core, a Answered) {
	switch a.Result {
	case Done, Gone:
		e.finish(c, events.DecisionEvicted, "")
	case Unknown:
		c.pace(&e.pacing)
	default:
		e.finish(c, events.DecisionEvictRefused, a.Problem)
	}
}

// move hands the eviction to the plan that keeps the place, or refuses it because another pod has the place, or none
// is kept any more.
func (e *eviction) move(c *Core, claim ledger.Entry) {
	_, _, kept := c.ledger.PlanOwner(e.plan())
	if claim.Plan != e.plan() || !kept && claim.State != ledger.Evicting {
		e.finish(c, events.DecisionEvictRefused, "no place is kept for its replacement any more")
		return
	}
	c.advancePlan(e.plan())
}

// claim claims a running pod. A pod that two budgets cover is not tried, because the API server always answers 500.
func (e *eviction) claim(c *Core, p *state.Pod) {
	rooms := c.facts.Cluster.BudgetsOf(p, c.ledger)
	n, onNode := c.facts.Cluster.NodeByName(p.NodeName)
	switch {
	case len(rooms) > 1:
		e.finish(c, events.DecisionEvictRefused,
			"more than one disruption budget covers the pod, which the eviction API does not support")
		return
	case !onNode:
		e.finish(c, events.DecisionEvictRefused, fmt.Sprintf("the pod runs on no node that is known (%q)", p.NodeName))
		return
	}
	victim := ledger.Entry{
		PodUID: p.UID, Namespace: p.Namespace, Name: p.Name, Priority: p.Priority, PodRV: p.ResourceVersion,
		NotAfter: e.asked.NotAfter,
	}
	for _, r := range rooms {
		victim.Budgets = append(victim.Budgets, r.Doc.UID)
	}
	doc := c.ledger.Open(n.UID, n.Name, n.ResourceVersion)
	change, err := ledger.ClaimEviction(ledger.SoleEviction{
		Token: e.key.token, Sender: c.id, Victim: ledger.NodeEntry{NodeUID: n.UID, Entry: victim}, Doc: doc,
		Budgets: rooms, Facts: claimFacts{c},
	})
	var behind *ledger.RefusedError
	switch {
	case errors.As(err, &behind):
		c.pace(&e.pacing)
	case err != nil:
		e.finish(c, events.DecisionEvictRefused, err.Error())
	default:
		e.op = c.amend(e, change, "evict-claim")
	}
}

func (e *eviction) answered(c *Core, in Input) {
	e.op = 0
	if e.void && !e.done {
		e.refuse(c)
		return
	}
	if a, ok := in.(Answered); ok {
		e.removed(c, a)
		return
	}
	if a, ok := in.(Amended); ok && a.Result != Applied {
		if a.Result == Lost {
			e.retry = c.limits.Retry // another claim succeeded: among many claims of one node that is no sign of trouble
		}
		c.pace(&e.pacing) // and then evaluate the view again, which has what won
		return
	}
	if r, ok := c.removals[e.key.pod]; ok {
		r.advance(c)
	}
}

// refuse ends an eviction that was decided before this generation of the ledger; another binder's is forgotten.
func (e *eviction) refuse(c *Core) {
	if c.holds(e.key.pod) {
		e.finish(c, events.DecisionEvictRefused, beginsAnew)
		return
	}
	delete(c.evictions, e.key)
}

// finish publishes the outcome, once.
func (e *eviction) finish(c *Core, kind events.DecisionKind, message string) {
	if e.done {
		return
	}
	e.done = true
	e.failed = kind == events.DecisionEvictRefused
	e.since = c.now
	d := e.asked
	d.Kind, d.Message = kind, message
	c.publish(d)
	e.report(c, message)
}

// reporter is the component in whose name evictions of the descheduler are reported. It is upstream's, as is the rest
// of the event except for the end of its note, so that tools that look for upstream's events find Berth's.
const reporter = "sigs.k8s.io.descheduler"

// report emits an event for an eviction that was carried out or, if the policy asks for it, that failed. (Upstream
// pkg/descheduler/evictions EvictPod.) There is no event for a pod that left by itself.
func (e *eviction) report(c *Core, message string) {
	r := Report{
		Pod: e.asked.Pod, SchedulerName: reporter, Action: "Descheduled",
		Note: fmt.Sprintf("pod eviction from %s node by berth descheduler", e.asked.NodeName),
	}
	switch {
	case e.failed && e.asked.TellFailure:
		r.Type = "Warning"
		r.Reason = "EvictionFailed"
		r.Note += " failed: " + message
	case e.failed || message != "":
		return
	default:
		r.Type = "Normal"
		r.Reason = cmp.Or(e.asked.Strategy, "NotSet")
		r.Note += ", " + e.asked.Message
	}
	c.emit(r)
}
