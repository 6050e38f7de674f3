package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// rejection is an attempt that fits nowhere, next to pods that are staged and may yet be
// taken back. If one is, it leaves room that no fact and no change of the ledger ever tells
// of: a pod that was parked on its account would wait for nothing. So the verdict waits for
// what it has counted, which takes a transaction or two; other attempts go on meanwhile.
type rejection struct {
	attempt  *attempt
	decision events.Decision
	// counted are the pods that were staged, withdrawn how many had been taken back before.
	counted   []string
	withdrawn uint64
	// unsettled: there are promises of devices that may be taken back without an event.
	unsettled bool
	// onHold: next to the pods whose places are held it would fit.
	onHold bool
}

// standpoint is what a look rests on: what comes later may lead to another end.
type standpoint struct {
	facts     state.Position
	ledger    int64
	withdrawn uint64
}

func (c *Core) standpoint() standpoint {
	return standpoint{c.store.Position(), c.ledger.Revision(), c.cross.withdrawn}
}

// reject ends an attempt that fits nowhere, as soon as that is certain.
func (c *Core) reject(a *attempt, p *placement.Profile, r looked, out *Output) {
	d := c.decision(events.DecisionUnplaceable, a)
	from := c.standpoint()
	if a.counsel.opinions != nil {
		from = a.counsel.from
	}
	d.FactSequence = from.facts.Sequence
	d.FactEpoch = from.facts.Epoch
	d.LedgerRevision = from.ledger
	d.Message = r.Diagnosis.Message()
	d.Plugins = r.Diagnosis.Plugins()
	d.Reasons = r.Diagnosis.Reasons()
	d.NodesTotal = int32(r.NodesTotal)
	d.Seed = Seed(a.pod.UID, a.offer.Attempt)
	d.Evidence = c.evidence(a, p, r, 0)
	rejected := rejection{
		attempt: a, decision: d, counted: c.stagedPods(), withdrawn: from.withdrawn, unsettled: r.unsettled,
		onHold: r.onHold,
	}
	if !c.postFilter(rejected, p) {
		c.rejectedFor(rejected, out)
	}
}

// rejectedFor concludes an attempt, or has it wait for what it has counted.
func (c *Core) rejectedFor(r rejection, out *Output) {
	if r.withdrawn != c.cross.withdrawn || slices.ContainsFunc(r.counted, c.view.IsStaged) {
		r.attempt.verdict = &r
		c.attempts.reject(r.attempt)
		return
	}
	c.conclude(r, out)
}

// awaits says that the pod waits also for what concerns a plugin. DefaultPreemption: for pods that may not go now,
// for budgets with more room, and for the end of plans (see rule.ObjectChange and the queue's LedgerMoved).
func (r *rejection) awaits(plugin string) {
	if slices.Contains(r.decision.Plugins, plugin) {
		return
	}
	r.decision.Plugins = append(slices.Clone(r.decision.Plugins), plugin)
	slices.Sort(r.decision.Plugins)
}

// keepsBelow says whether there are less important pods that are nobody's victims for now and
// stay where they are.
func (c *Core) keepsBelow(priority int32) bool {
	stays := func(uid string) bool {
		pod, ok := c.view.Pod(uid)
		return ok && !isLeaving(pod) && pod.Priority < priority
	}
	for nodeUID := range c.plans.protected {
		d, _ := c.ledger.Doc(nodeUID)
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

func (c *Core) stagedPods() []string {
	var uids []string
	for a := range c.attempts.onNodes() {
		uids = append(uids, a.offer.Pod.UID)
	}
	return uids
}

// settleRejections tells of those whose counted pods all stand, and has those decided again
// next to which one has been taken back.
func (c *Core) settleRejections(out *Output) {
	var again []*attempt
	for _, a := range c.attempts.takeAll(rejected) {
		switch r := *a.verdict; {
		case r.withdrawn != c.cross.withdrawn:
			a.counsel.forget()
			again = append(again, a)
		case slices.ContainsFunc(r.counted, c.view.IsStaged):
			c.attempts.reject(a)
		default:
			c.conclude(r, out)
		}
	}
	c.attempts.prepend(pending, again...)
}

// promisesPending says that a pod found no node, and that this is no verdict.
const promisesPending = "devices are still promised to other pods: "

// unplaceable ends an attempt with its verdict, or with the error that there is none yet. The offer may
// have been renewed since.
func (c *Core) unplaceable(r rejection, out *Output) {
	if r.unsettled {
		c.fail(r.attempt, promisesPending+r.decision.Message, out)
		return
	}
	c.tellUnplaceable(r.attempt, r.decision, out)
	c.drop(r.attempt)
}

func (c *Core) tellUnplaceable(a *attempt, d events.Decision, out *Output) {
	d.Token = a.offer.Token
	d.Attempt = a.offer.Attempt
	d.TraceParent = a.offer.TraceParent
	out.Decisions = append(out.Decisions, d)
	report := a.report(Unschedulable)
	report.Nodes = int(d.NodesTotal)
	report.Plugins = d.Plugins
	report.Evidence = d.Evidence
	out.Attempts = append(out.Attempts, report)
}
