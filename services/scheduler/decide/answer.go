package decide

import (
	"cmp"
	"strings"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/decide/answer"
)

// Answer returns what the shard knows of a pod, given by UID or as namespace/name, of a node, of a gang, or of the
// shard as a whole, for people. ok is false for a pod that it does not know or whose partition another shard holds.
// Answer is not a step and changes no state. For a waiting pod it evaluates all nodes with all rules.
func (c *Core) Answer(q explain.Question) (a explain.ShardAnswer, ok bool) {
	a = explain.ShardAnswer{
		Member: c.shard.ID, FactSequence: c.shard.Store.Position().Sequence, LedgerRevision: c.shard.Ledger.Revision(),
	}
	if q.Status {
		a.Status = c.status()
		return a, true
	}
	if q.Node != "" {
		a.Node = c.reader().Node(q.Node)
		return a, a.Node != nil
	}
	if namespace, name, named := strings.Cut(q.Gang, "/"); named {
		a.Gang = c.placer.gangs.Explain(namespace, name)
		return a, a.Gang != nil
	}
	pod, known := c.shard.View.Pod(q.Pod)
	if namespace, name, named := strings.Cut(q.Pod, "/"); named {
		pod, known = c.shard.View.Snapshot().PodByName(namespace, name)
	}
	if !known {
		return a, false
	}
	if _, mine := c.shard.Holds(ledger.PartitionOf(cmp.Or(pod.Group(), pod.UID))); !mine {
		return a, false
	}
	a.Pod = c.reader().Pod(pod)
	return a, true
}

// status returns the state of the shard as a whole, for people. Reasons for which no node is avoided are left out.
func (c *Core) status() *explain.ShardStatus {
	s := &explain.ShardStatus{Held: c.HeldPlaces(), LeftAlone: map[string]int{}}
	s.Nodes, s.Pods, s.Reserved = c.Sizes()
	for why, nodes := range c.AvoidedCounts() {
		if nodes > 0 {
			s.LeftAlone[why] = nodes
		}
	}
	return s
}

// reader returns the part of the state that answers are read from.
func (c *Core) reader() *answer.Shard {
	return &answer.Shard{View: c.shard.View, Ledger: c.shard.Ledger, Gate: c.shard.Gate, Profiles: c.shard.Profiles}
}
