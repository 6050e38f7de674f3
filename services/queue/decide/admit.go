package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// budgetFacts returns how far the facts have been applied, for the budgets.
func (c *Core) budgetFacts() quota.Facts {
	f := c.world.Facts
	return quota.Facts{Sequence: f.Sequence, Epoch: f.Epoch, Complete: c.world.Primed && f.ProgressKnown}
}

// resetBudgets recounts all pods and queues those that wait again.
func (c *Core) resetBudgets(in FactsReset) {
	for _, problem := range c.budgets.Reset(in.Pods, in.Objects) {
		c.out.complain(problem)
	}
	for _, e := range c.backlog.pools.Gated.All() {
		quotaGates{c.budgets, &c.clock}.Enter(e)
	}
}

// admit requests the removal of the gates of pods whose namespaces have room, once all decisions of earlier leaders
// have been read.
func (c *Core) admit(now waiting.Moment) {
	if !c.leases.leading || !c.decisions.complete() {
		return
	}
	f := c.world.Facts
	for _, p := range c.budgets.Admit(c.clock.timeOf(now), c.budgetFacts()) {
		c.out.records = append(c.out.records, Record{Decision: events.Decision{
			Kind: events.DecisionUngate, Pod: waiting.PodRef(p), SchedulerName: p.SchedulerName, Actor: c.cfg.Queue,
			Token: c.leases.newToken().String(), FactSequence: f.Sequence, FactEpoch: f.Epoch,
			LedgerRevision: c.world.Revision, PodResourceVersion: p.ResourceVersion,
		}})
	}
}

// ungateRecorded records that the log has the decision to let a pod go.
func (c *Core) ungateRecorded(d *events.Decision, now waiting.Moment) {
	var p *state.Pod
	if e, known := c.backlog.pods[d.Pod.UID]; known {
		p = e.Pod
	}
	c.budgets.Recorded(d, p, c.budgetFacts(), c.clock.timeOf(now))
}

// quotaGates makes the budgets receive the pods that wait for their gates.
type quotaGates struct {
	*quota.Budgets
	clock *clock
}

// Enter records a pod that now waits for its gates.
func (g quotaGates) Enter(e *waiting.Entry) {
	g.Budgets.Enter(e.Pod, g.clock.timeOf(e.Queued), e.Serial)
}
