package search

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// Scope is which nodes a decision about a plain pod prefers. Decisions about other pods have the zero Scope: all nodes,
// and the best of them.
//
// On a calm cluster that is also the scope of plain pods. Shards that choose the best of all nodes at the same time
// choose the same one, and all but one of them lose a race. So while shards would collide, each prefers its home nodes,
// which are no other shard's.
type Scope struct {
	// Home: only home nodes are evaluated, if there are enough of them and enough of those pass.
	Home bool
	// Near, where all nodes are evaluated, is how many pods may go to the best node before the best home node is as good;
	// see engine.Query.Near. 0: the best node is chosen.
	Near int64
	// Swayed: home nodes are also for pods to which terms of pods on nodes give points. Decisions of versions that did
	// not record how many nodes were usable were made so.
	Swayed bool
	// Nominations: pods that are nominated to nodes held room there. Earlier versions did not count them.
	Nominations bool
}

// scope returns the scope of a decision that is made now about a plain pod, according to the profile.
func (x *Searcher) scope(profile *placement.Profile) Scope {
	if x.Recorded != nil {
		return *x.Recorded
	}
	policy := profile.HomeNodesFirst()
	if policy == "" {
		policy = x.Shard.HomeNodesFirst
	}
	waiting := x.Record.Attempts.Count(attempt.Pending, attempt.Staged)
	contended := x.Contention.Contended(waiting, x.Shard.Now)
	switch {
	case policy == placement.HomeNever:
		return Scope{}
	case contended:
		return Scope{Home: true, Near: x.near()}
	default:
		return Scope{Home: policy == placement.HomeAlways}
	}
}

// near estimates how many pods each other shard has under way to each of its own home nodes, which this shard cannot
// see yet: as many as it has itself, and one more.
func (x *Searcher) near() int64 {
	_, home := x.Shard.Engine.Candidates()
	underWay := x.Record.Attempts.Count(attempt.Staged, attempt.InFlight)
	return 1 + int64(underWay/max(home, 1))
}
