package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// Plugins that have something to do about pods that fit nowhere (Config.PostFilters) are asked when a look has found
// so, as the end of its cycle: no other question goes out before they have answered. What they say is added to the
// verdict, which then takes its way as any other. A node that they nominate the pod to is written to the pod with its
// condition; the next look tries it first, and nothing is kept there.

// postFilter has plugins asked about an attempt that fits nowhere; false if there are none to ask.
func (c *Core) postFilter(r rejection, p *placement.Profile) bool {
	a := r.attempt
	if !c.cfg.PostFilters[a.pod.SchedulerName] || a.counsel.opinions == nil || r.decision.NodesTotal == 0 {
		return false
	}
	a.verdict = &r
	c.attempts.ask(a, filtering, a.counsel.shownFor)
	c.performing.out = append(c.performing.out, Perform{
		ID: a.counsel.shownFor, Act: ActPostFilter, Shard: c.cfg.Shard, SchedulerName: a.pod.SchedulerName, Pod: a.pod,
		Verdicts: c.verdicts(a, p),
	})
	return true
}

// verdicts say why each node will not do. They come from scratch: nothing keeps them by node.
func (c *Core) verdicts(a *attempt, p *placement.Profile) []Verdict {
	in := placement.Input{
		Pod: a.pod, Nodes: c.view.Nodes(), Opinions: a.counsel.opinions, Guidance: a.counsel.guidance,
		Everywhere: true, Details: true,
	}
	v, err := c.claims.Of(a.pod, p)
	if err != nil {
		return nil // it was found to fit nowhere, so there is none
	}
	in.Objects = v.Lookups(c.view.Snapshot())
	reports := p.Evaluate(in).Nodes
	verdicts := make([]Verdict, len(reports))
	for i, r := range reports {
		verdicts[i] = Verdict{
			Node: r.Node.Node.Name, Plugin: r.Plugin, Reasons: r.Reasons, Resolvable: r.Code == rule.Unschedulable,
		}
	}
	return verdicts
}

// postFiltered goes on with an attempt that plugins have been asked about.
func (c *Core) postFiltered(p Performed, out *Output) {
	a, waits := c.attempts.answered(filtering, p.ID)
	if !waits {
		return
	}
	r := *a.verdict
	if p.Message != "" {
		r.decision.Message += " " + p.Message
	}
	r.decision.NodeName = p.Nominated
	c.rejectedFor(r, out)
}
