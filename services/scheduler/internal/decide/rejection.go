package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
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
	if !c.postFilter(rejected, p) {
		c.rejectedFor(rejected)
	}
}

// rejectedFor concludes an attempt, or has it wait for what it has counted.
func (c *Core) rejectedFor(r attempt.Rejection) {
	if r.Withdrawn != c.life.Withdrawn || slices.ContainsFunc(r.Counted, c.shard.View.IsStaged) {
		r.Attempt.Verdict = &r
		c.attempts.Reject(r.Attempt)
		return
	}
	c.conclude(r)
}

// keepsBelow says whether there are less important pods that are nobody's victims for now and
// stay where they are.
func (c *Core) keepsBelow(priority int32) bool {
	stays := func(uid string) bool {
		pod, ok := c.shard.View.Pod(uid)
		return ok && !isLeaving(pod) && pod.Priority < priority
	}
	for nodeUID := range c.plans.protected {
		d, _ := c.shard.Ledger.Doc(nodeUID)
		for i := range d.Entries {
			e := &d.Entries[i]
			if (e.Role != ledger.RoleReservation || e.State == ledger.Held) && stays(e.PodUID) {
				return true
			}
		}
	}
	for uid := range c.plans.loops.spared {
		if stays(uid) {
			return true
		}
	}
	return false
}

// settleRejections tells of those whose counted pods all stand, and has those decided again
// next to which one has been taken back.
func (c *Core) settleRejections() {
	var again []*attempt.Attempt
	for _, a := range c.attempts.TakeAll(attempt.Rejected) {
		switch r := *a.Verdict; {
		case r.Withdrawn != c.life.Withdrawn:
			a.Counsel.Forget()
			again = append(again, a)
		case slices.ContainsFunc(r.Counted, c.shard.View.IsStaged):
			c.attempts.Reject(a)
		default:
			c.conclude(r)
		}
	}
	c.attempts.Prepend(attempt.Pending, again...)
}
