package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/quota"
)

// quotaFacts returns how far the facts have been applied, for the budgets.
func (c *Core) quotaFacts() quota.Facts {
	f := c.world.facts
	return quota.Facts{Sequence: f.Sequence, Epoch: f.Epoch, Complete: c.history.primed && f.ProgressKnown}
}

// complain emits a problem that people must fix; "" is none.
func (c *Core) complain(problem string) {
	if problem != "" {
		c.out.complaints = append(c.out.complaints, Complaint{Text: problem})
	}
}

// resetQuotas recounts all pods and queues those that wait again.
func (c *Core) resetQuotas(in FactsReset) {
	for _, problem := range c.quotas.Reset(in.Pods, in.Objects) {
		c.complain(problem)
	}
	for _, e := range c.bags.gated.All() {
		c.quotas.Enter(e.pod, c.timeOf(e.queued), e.serial)
	}
}

// admit requests the removal of the gates of pods whose namespaces have room, once all decisions of earlier leaders
// have been read.
func (c *Core) admit(now moment) {
	if !c.leases.leading || !c.history.caughtUp || c.history.sequence < c.leases.decided {
		return
	}
	f := c.world.facts
	for _, p := range c.quotas.Admit(c.timeOf(now), c.quotaFacts()) {
		c.out.records = append(c.out.records, Record{Decision: events.Decision{
			Kind: events.DecisionUngate, Pod: podRef(p), SchedulerName: p.SchedulerName, Actor: c.cfg.Queue,
			Token: c.newToken().String(), FactSequence: f.Sequence, FactEpoch: f.Epoch,
			LedgerRevision: c.world.revision, PodResourceVersion: p.ResourceVersion,
		}})
	}
}

// ungateSeen records that the log has the decision to let a pod go.
func (c *Core) ungateSeen(d *events.Decision, now moment) {
	var p *state.Pod
	if e, known := c.pods[d.Pod.UID]; known {
		p = e.pod
	}
	c.quotas.Recorded(d, p, c.quotaFacts(), c.timeOf(now))
}

func nameOf(o state.ObjectChange) string {
	if o.After != nil {
		return o.After.Name
	}
	return o.Before.Name
}
