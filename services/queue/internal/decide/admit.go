package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/quota"
)

// budgetFacts returns how far the facts have been applied, for the budgets.
func (c *Core) budgetFacts() quota.Facts {
	f := c.world.facts
	return quota.Facts{Sequence: f.Sequence, Epoch: f.Epoch, Complete: c.world.primed && f.ProgressKnown}
}

// resetBudgets recounts all pods and queues those that wait again.
func (c *Core) resetBudgets(in FactsReset) {
	for _, problem := range c.budgets.Reset(in.Pods, in.Objects) {
		c.out.complain(problem)
	}
	for _, e := range c.backlog.pools.gated.All() {
		quotaGates{c.budgets, &c.clock}.Enter(e)
	}
}

// admit requests the removal of the gates of pods whose namespaces have room, once all decisions of earlier leaders
// have been read.
func (c *Core) admit(now moment) {
	if !c.leases.leading || !c.decisions.complete() {
		return
	}
	f := c.world.facts
	for _, p := range c.budgets.Admit(c.clock.timeOf(now), c.budgetFacts()) {
		c.out.records = append(c.out.records, Record{Decision: events.Decision{
			Kind: events.DecisionUngate, Pod: podRef(p), SchedulerName: p.SchedulerName, Actor: c.cfg.Queue,
			Token: c.leases.newToken().String(), FactSequence: f.Sequence, FactEpoch: f.Epoch,
			LedgerRevision: c.world.revision, PodResourceVersion: p.ResourceVersion,
		}})
	}
}

// ungateSeen records that the log has the decision to let a pod go.
func (c *Core) ungateSeen(d *events.Decision, now moment) {
	var p *state.Pod
	if e, known := c.backlog.pods[d.Pod.UID]; known {
		p = e.pod
	}
	c.budgets.Recorded(d, p, c.budgetFacts(), c.clock.timeOf(now))
}

// quotaGates makes the budgets receive the pods that wait for their gates.
type quotaGates struct {
	*quota.Budgets
	clock *clock
}

// Enter records a pod that now waits for its gates.
func (g quotaGates) Enter(e *entry) { g.Budgets.Enter(e.pod, g.clock.timeOf(e.queued), e.serial) }
