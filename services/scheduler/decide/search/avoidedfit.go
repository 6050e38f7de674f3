package search

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
)

// AvoidedFit explains why a pod may not use nodes on which it would fit.
type AvoidedFit struct {
	Message string
	// Nodes are the names of the avoided nodes on which it would fit, sorted; nil if there are more than
	// events.MaxWithheld.
	Nodes []string
	// Transient: this ends before the queue would offer the pod again.
	Transient bool
	// Plugins are the rules that reject the avoided nodes, some of them only because of nominations. Set only for a pod
	// that fits on none of these nodes: the pod waits for these rules, too.
	Plugins []string
}

// FitsOnAvoided reports whether a pod that found no node would fit on nodes that are left alone, or that its
// workload avoids. Nodes where nominations hold the room are not among them. Its message counts no other nodes, and
// none whose facts are missing yet. It evaluates the avoided nodes from scratch, and, if one fits, all nodes once more
// for the message.
func (x *Searcher) FitsOnAvoided(
	p *placement.Profile, a *attempt.Attempt, seed uint64, avoided []string,
) (AvoidedFit, bool) {
	if len(x.Shard.Gate.AvoidedNodes())+len(avoided) == 0 {
		return AvoidedFit{}, false
	}
	excluded := map[string]string{}
	brief := true
	for uid, because := range x.Shard.Gate.AvoidedNodes() {
		gravest := because.Gravest()
		excluded[uid], brief = gravest.Message(), brief && gravest == avoid.Turn
	}
	for _, uid := range avoided {
		excluded[uid], brief = avoid.OwnerMessage, false
	}
	in := placement.Input{
		Pod: a.Pod, Nodes: x.Shard.View.Nodes(), Objects: x.Shard.View.Snapshot(), Seed: seed, Limit: -1,
		Candidates: []*state.NodeInfo{}, Opinions: a.Advice.Opinions, Everywhere: true, Unsampled: true,
	}
	for _, n := range in.Nodes {
		if _, is := excluded[n.Node.UID]; is {
			in.Candidates = append(in.Candidates, n)
		}
	}
	fit := p.Evaluate(in)
	beside := x.besidesOf(a.Pod, p, in.Objects)
	open := map[string]string{}
	names := make([]string, 0, len(fit.Feasible))
	for _, s := range fit.Feasible {
		if beside.takes(s.Node) {
			continue
		}
		open[s.Node.Node.UID] = excluded[s.Node.Node.UID]
		names = append(names, s.Node.Node.Name)
	}
	if len(open) == 0 {
		in.Opinions = withOpinions(in.Opinions, beside.opinions())
		return AvoidedFit{Plugins: p.Evaluate(in).Diagnosis.Plugins()}, false
	}
	in.Candidates, in.Excluded = nil, open
	return AvoidedFit{Message: messageBeside(p, in, beside), Nodes: record.Withheld(names), Transient: brief}, true
}

// messageBeside returns upstream's message for a pod that no node of the input may take, some of them only because of
// nominations.
func messageBeside(p *placement.Profile, in placement.Input, beside *besides) string {
	r := p.Evaluate(in)
	for _, s := range r.Feasible {
		beside.takes(s.Node)
	}
	if taken := beside.opinions(); len(r.Feasible) > 0 && len(taken) > 0 {
		in.Opinions = withOpinions(in.Opinions, taken)
		r = p.Evaluate(in)
	}
	return r.Diagnosis.Message()
}

// withOpinions returns both opinions about nodes; the later ones replace earlier ones.
func withOpinions(earlier, later map[string]placement.Opinion) map[string]placement.Opinion {
	all := maps.Clone(earlier)
	if all == nil {
		all = map[string]placement.Opinion{}
	}
	maps.Copy(all, later)
	return all
}
