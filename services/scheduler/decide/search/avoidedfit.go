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
	// Plugins are the plugins that reject the avoided nodes, with the nominated pods counted. They are set only if the
	// pod fits on none of these nodes: it then waits for changes that these plugins listen to.
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
		return AvoidedFit{Plugins: diagnosisBeside(p, in, fit, beside).Plugins()}, false
	}
	in.Candidates, in.Excluded = nil, open
	all := p.Evaluate(in)
	for _, s := range all.Feasible {
		beside.takes(s.Node)
	}
	message := diagnosisBeside(p, in, all, beside).Message()
	return AvoidedFit{Message: message, Nodes: record.Withheld(names), Transient: brief}, true
}

// diagnosisBeside returns the diagnosis of a pod that no node of the input may take. r is the result for the input. Its
// feasible nodes have been judged: nominations leave the pod no room on them.
func diagnosisBeside(
	p *placement.Profile, in placement.Input, r placement.Result, beside *besides,
) placement.Diagnosis {
	if taken := beside.opinions(); len(r.Feasible) > 0 && len(taken) > 0 {
		all := map[string]placement.Opinion{}
		maps.Copy(all, in.Opinions)
		maps.Copy(all, taken)
		in.Opinions = all
		r = p.Evaluate(in)
	}
	return r.Diagnosis
}
