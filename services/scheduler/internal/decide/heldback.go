package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
)

// held is what keeps a pod from nodes that would take it.
type held struct {
	message string
	nodes   int
	// brief: it will be over in less than the queue takes to offer the pod again.
	brief bool
}

// heldBack says whether a pod that found no node would fit some that are left alone or that
// its workload avoids. Others are not counted in its message, as those are not whose facts are
// not there yet.
func (c *Core) heldBack(p *placement.Profile, a *attempt.Attempt, seed uint64, avoided []string) (held, bool) {
	if len(c.shard.Gate.Avoided())+len(avoided) == 0 {
		return held{}, false
	}
	excluded := map[string]string{}
	brief := true
	for uid, because := range c.shard.Gate.Avoided() {
		gravest := because.Gravest()
		excluded[uid], brief = gravest.Message(), brief && gravest == avoid.Turn
	}
	for _, uid := range avoided {
		excluded[uid], brief = avoid.OwnerMessage, false
	}
	in := placement.Input{
		Pod: a.Pod, Nodes: c.shard.View.Nodes(), Objects: c.shard.View.Snapshot(), Seed: seed, Limit: -1,
		Candidates: []*state.NodeInfo{}, Opinions: a.Counsel.Opinions,
	}
	for _, n := range in.Nodes {
		if _, is := excluded[n.Node.UID]; is {
			in.Candidates = append(in.Candidates, n)
		}
	}
	fit := p.Evaluate(in)
	if len(fit.Feasible) == 0 {
		return held{}, false
	}
	open := map[string]string{}
	for _, s := range fit.Feasible {
		open[s.Node.Node.UID] = excluded[s.Node.Node.UID]
	}
	in.Candidates, in.Excluded = nil, open
	all := p.Evaluate(in)
	return held{message: all.Diagnosis.Message(), nodes: all.NodesTotal, brief: brief}, true
}
