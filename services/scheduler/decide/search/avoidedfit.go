package search

import (
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
}

// FitsOnAvoided reports whether a pod that found no node would fit on nodes that are left alone, or that its
// workload avoids. Its message counts no other nodes, and none whose facts are missing yet. It evaluates the avoided
// nodes from scratch, and, if one fits, all nodes once more for the message.
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
		Candidates: []*state.NodeInfo{}, Opinions: a.Advice.Opinions,
	}
	for _, n := range in.Nodes {
		if _, is := excluded[n.Node.UID]; is {
			in.Candidates = append(in.Candidates, n)
		}
	}
	fit := p.Evaluate(in)
	if len(fit.Feasible) == 0 {
		return AvoidedFit{}, false
	}
	open := map[string]string{}
	names := make([]string, 0, len(fit.Feasible))
	for _, s := range fit.Feasible {
		open[s.Node.Node.UID] = excluded[s.Node.Node.UID]
		names = append(names, s.Node.Node.Name)
	}
	in.Candidates, in.Excluded = nil, open
	all := p.Evaluate(in)
	return AvoidedFit{Message: all.Diagnosis.Message(), Nodes: record.Withheld(names), Transient: brief}, true
}
