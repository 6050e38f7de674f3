package advice

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Plugins that have something to do about pods that fit nowhere (Config.PostFilters) are asked when a look has found
// so, as the end of its cycle: no other question goes out before they have answered. What they say is added to the
// verdict, which then takes its way as any other. A node that they nominate the pod to is written to the pod with its
// condition; the next look tries it first, and nothing is kept there.

// PostFilter has plugins asked about an attempt that fits nowhere; false if there are none to ask.
func (pl *Plugins) PostFilter(r attempt.Rejection, p *placement.Profile) bool {
	a := r.Attempt
	if !pl.postFiltersFor[a.Pod.SchedulerName] || a.Counsel.Opinions == nil || r.Decision.NodesTotal == 0 {
		return false
	}
	a.Verdict = &r
	pl.attempts.Ask(a, attempt.Filtering, a.Counsel.ShownFor)
	pl.effects.Perform(step.Perform{
		ID: a.Counsel.ShownFor, Act: step.ActPostFilter, Shard: pl.shard.ID, SchedulerName: a.Pod.SchedulerName, Pod: a.Pod,
		Verdicts: pl.verdicts(a, p),
	})
	return true
}

// verdicts say why each node will not do. They come from scratch: nothing keeps them by node.
func (pl *Plugins) verdicts(a *attempt.Attempt, p *placement.Profile) []step.Verdict {
	in := placement.Input{
		Pod: a.Pod, Nodes: pl.shard.View.Nodes(), Opinions: a.Counsel.Opinions, Guidance: a.Counsel.Guidance,
		Everywhere: true, Details: true,
	}
	v, err := pl.shard.Claims.Of(a.Pod, p)
	if err != nil {
		return nil // it was found to fit nowhere, so there is none
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

// postFiltered goes on with an attempt that plugins have been asked about.
func (pl *Plugins) postFiltered(p step.Performed) {
	a, waits := pl.attempts.Answered(attempt.Filtering, p.ID)
	if !waits {
		return
	}
	r := *a.Verdict
	if p.Message != "" {
		r.Decision.Message += " " + p.Message
	}
	r.Decision.NodeName = p.Nominated
	pl.plans.Reject(r)
}
