package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
)

// reject ends an attempt that fits nowhere, as soon as that is certain.
func (c *Core) reject(a *attempt.Attempt, p *placement.Profile, r record.Look) {
	d := c.record.Decision(events.DecisionUnplaceable, a)
	from := c.life.Standpoint()
	if a.Counsel.Opinions != nil {
		from = a.Counsel.From
	}
	d.FactSequence = from.Facts.Sequence
	d.FactEpoch = from.Facts.Epoch
	d.LedgerRevision = from.Ledger
	d.Message = r.Diagnosis.Message()
	d.Plugins = r.Diagnosis.Plugins()
	d.Reasons = r.Diagnosis.Reasons()
	d.NodesTotal = int32(r.NodesTotal)
	d.Seed = attempt.Seed(a.Pod.UID, a.Offer.Attempt)
	d.Evidence = c.record.Evidence(a, p, r, 0)
	rejected := attempt.Rejection{
		Attempt: a, Decision: d, Counted: c.attempts.StagedPods(), Withdrawn: from.Withdrawn, Unsettled: r.Unsettled,
		OnHold: r.OnHold,
	}
	if !c.performing.PostFilter(rejected, p) {
		c.preempt.Reject(rejected)
	}
}
