package advice

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// PostFilter plugins (Config.PostFilters) are asked about a pod that fits nowhere as soon as the decision has found
// that, as the end of its cycle: no other question is sent before they have answered. Their message is added to the
// verdict, which is then handled like any other. If they nominate a node, it is written to the pod with its
// condition; the next decision tries that node first, but no place is kept there.

// PostFilter makes plugins act on an attempt that fits nowhere; false if no plugin has to be asked.
func (pl *Plugins) PostFilter(r attempt.Rejection, p *placement.Profile) bool {
	a := r.Attempt
	if !pl.postFiltersFor[a.Pod.SchedulerName] || a.Advice.Opinions == nil || r.Decision.NodesTotal == 0 {
		return false
	}
	a.Verdict = &r
	pl.attempts.Await(a, attempt.Filtering, a.Advice.ShownFor)
	pl.effects.Perform(step.PluginRequest{
		ID: a.Advice.ShownFor, Act: step.ActPostFilter, Shard: pl.shard.ID, SchedulerName: a.Pod.SchedulerName, Pod: a.Pod,
		Verdicts: pl.verdicts(a, p),
	})
	return true
}

// verdicts explain why each node is rejected. They are computed from scratch: no state keeps them by node.
func (pl *Plugins) verdicts(a *attempt.Attempt, p *placement.Profile) []step.Verdict {
	in := placement.Input{
		Pod: a.Pod, Nodes: pl.shard.View.Nodes(), Opinions: a.Advice.Opinions, Guidance: a.Advice.Guidance,
		Everywhere: true, Details: true,
	}
	v, err := pl.shard.Claims.SupplyFor(a.Pod, p)
	if err != nil {
		return nil // the pod was found to fit nowhere, so there is no error
	}
	in.Objects = v.Lookups(pl.shard.View.Snapshot())
	reports := p.Evaluate(in).Nodes
	verdicts := make([]step.Verdict, len(reports))
	for i, r := range reports {
		verdicts[i] = step.Verdict{
			Node: r.Node.Node.Name, Plugin: r.Plugin, Reasons: r.Reasons, Resolvable: r.Code == rule.Unschedulable,
		}
	}
	return verdicts
}

// postFiltered continues with an attempt after the answer of PostFilter plugins.
func (pl *Plugins) postFiltered(p step.PluginResult) {
	a, waits := pl.attempts.TakeAnswered(attempt.Filtering, p.ID)
	if !waits {
		return
	}
	r := *a.Verdict
	if p.Message != "" {
		r.Decision.Message += " " + p.Message
	}
	r.Decision.NodeName = p.Nominated
	if p.Nominated != "" || p.Nomination == step.NominationKept ||
		p.Nomination == step.NominationUndecided && !pl.preempts(a.Pod.SchedulerName) {
		r.Decision.StaleNomination = ""
	}
	pl.plans.Reject(r)
}

// preempts reports whether a profile has DefaultPreemption, which decides about a nomination if no other plugin does.
func (pl *Plugins) preempts(schedulerName string) bool {
	p, ok := pl.shard.Profiles[schedulerName]
	return ok && p.Preempts()
}
