package decide

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// looked is what an evaluation found, whether it looked at the home nodes only, and what else it
// depended on. unsettled and onHold: see rejection.
type looked struct {
	placement.Result
	home      bool
	basis     events.Basis
	unsettled bool
	onHold    bool
}

// evidence is the record of an evaluation. The result belongs to the engine; what is kept of
// it is copied here.
func (c *Core) evidence(a *attempt, p *placement.Profile, r looked, behind int) *events.Evidence {
	if c.shard.NoEvidence {
		return nil
	}
	e := &events.Evidence{
		Config: p.Hash(), Class: r.Class, LedgerRevision: c.shard.Ledger.Revision(), Staged: c.stagedOrders(),
		Home: r.home, Behind: int32(behind),
		Cause: a.offer.Cause, Waited: a.offer.Waited, Considered: c.shard.Since(a.received),
		Basis: r.basis,
	}
	if len(r.Feasible) == 0 {
		e.Rejected = r.Diagnosis.NodesByPlugin()
		return e
	}
	if len(r.Rejected) > 0 {
		e.Rejected = make(map[string]int32, len(r.Rejected))
		for _, by := range r.Rejected {
			e.Rejected[by.Plugin] += by.Nodes
		}
	}
	e.ScoredBy = r.Weighed.Plugins
	e.Candidates = make([]events.Candidate, min(len(r.Feasible), events.EvidenceCandidates))
	for i := range e.Candidates {
		e.Candidates[i] = events.Candidate{Node: r.Feasible[i].Node.Node.Name, Total: r.Feasible[i].Total}
		if i < len(r.Weighed.Points) {
			e.Candidates[i].Points = slices.Clone(r.Weighed.Points[i])
		}
	}
	return e
}

// chose numbers a decision that chose a node.
func (c *Core) chose(e *events.Evidence) *events.Evidence {
	if e != nil {
		c.chosen++
		e.Order = c.chosen
	}
	return e
}

// choseOther numbers the choice of the next-best node by the same evaluation.
func (c *Core) choseOther(e *events.Evidence, alternative int) *events.Evidence {
	if e == nil {
		return nil
	}
	other := *e
	other.Basis.Alternative = int32(alternative)
	return c.chose(&other)
}

// sought numbers the choice of a node by a search for victims, which has just been made, after the
// evaluation that found none.
func (c *Core) sought(a *attempt, e *events.Evidence) *events.Evidence {
	if e == nil {
		return nil
	}
	other := *e
	other.LedgerRevision, other.Staged = c.shard.Ledger.Revision(), c.stagedOrders()
	other.Basis = c.basis(c.shard.Profiles[a.pod.SchedulerName], nil)
	if other.Basis.Way = events.WayHeld; a.counsel.opinions != nil || a.counsel.victims.answered {
		other.Basis.Way = events.WayAdvised
	}
	for uid := range c.plans.loops.spared {
		other.Basis.Spared = append(other.Basis.Spared, uid)
	}
	slices.Sort(other.Basis.Spared)
	if most := events.MaxLeftAlone; len(other.Basis.Spared) > most {
		other.Basis.Spared, other.Basis.Unlisted = other.Basis.Spared[:most], true
	}
	return c.chose(&other)
}

// stagedOrders are the numbers of the decisions whose pods are staged.
func (c *Core) stagedOrders() []uint64 {
	n := c.attempts.count(staged, inFlight, reserving)
	if n == 0 {
		return nil
	}
	orders := make([]uint64, 0, n)
	for a := range c.attempts.onNodes() {
		if e := a.pick.evidence; e != nil && e.Order > 0 {
			orders = append(orders, e.Order)
		}
	}
	slices.Sort(orders)
	return orders
}

// tellLost records a race that an attempt has lost.
func (c *Core) tellLost(a *attempt, r step.Reason) {
	if a.pick.evidence != nil {
		c.effects.Lose(c.lostRecord(a, r))
	}
}

func (c *Core) lostRecord(a *attempt, r step.Reason) events.Decision {
	d := c.decision(events.DecisionLost, a)
	d.FactSequence = a.pick.factSequence
	d.LedgerRevision = a.pick.evidence.LedgerRevision
	d.Seed = a.pick.seed
	d.NodeUID, d.NodeName = a.pick.nodeUID, a.pick.nodeName
	d.NodesTotal, d.NodesFeasible = int32(a.pick.total), int32(a.pick.feasible)
	d.Message, d.Evidence = string(r), c.answered(a)
	return d
}

// answered is the evidence of an attempt whose transaction has been answered.
func (c *Core) answered(a *attempt) *events.Evidence {
	if a.pick.evidence == nil {
		return nil
	}
	a.told = a.pick.evidence.Order
	e := *a.pick.evidence
	e.Considered, e.Reserved = a.pick.decided.Sub(a.received).Truncate(time.Microsecond), c.shard.Since(a.pick.decided)
	return &e
}
