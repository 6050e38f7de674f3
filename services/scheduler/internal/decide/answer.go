package decide

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Answer says to people what the shard knows of a pod, by UID or as namespace/name, or of a
// node. ok is false for a pod whose partition another shard holds. It is no step: nothing
// changes. A pod that waits costs a look at all nodes with all rules.
func (c *Core) Answer(q explain.Question) (a explain.ShardAnswer, ok bool) {
	a = explain.ShardAnswer{
		Member: c.cfg.Shard, FactSequence: c.store.Position().Sequence, LedgerRevision: c.ledger.Revision(),
	}
	if q.Status {
		a.Status = c.status()
		return a, true
	}
	if q.Node != "" {
		a.Node = c.nodeView(q.Node)
		return a, a.Node != nil
	}
	pod, known := c.view.Pod(q.Pod)
	if namespace, name, named := strings.Cut(q.Pod, "/"); named {
		pod, known = c.view.Snapshot().PodByName(namespace, name)
	}
	if !known {
		return a, false
	}
	if _, mine := c.holds(ledger.PartitionOf(cmp.Or(pod.Group(), pod.UID))); !mine {
		return a, false
	}
	a.Pod = c.podView(pod)
	return a, true
}

// status is what people want to know of the shard as a whole.
func (c *Core) status() *explain.ShardStatus {
	s := &explain.ShardStatus{Held: c.Holds(), LeftAlone: map[string]int{}}
	s.Nodes, s.Pods, s.Reserved = c.Sizes()
	for why, nodes := range c.LeftAlone() {
		if nodes > 0 {
			s.LeftAlone[why] = nodes
		}
	}
	return s
}

func (c *Core) podView(pod *state.Pod) *explain.PodView {
	v := &explain.PodView{Nodes: len(c.view.Nodes()), Behind: c.view.Settle()}
	if d, e, ok := c.ledger.Entry(pod.UID); ok {
		v.Promise = c.promise(d, e)
		v.Victims = c.victimsFor(e.Plan)
	}
	if d, e, ok := c.ledger.Victim(pod.UID); ok {
		v.Claim = c.promise(d, e)
	}
	if pod.NodeName != "" || pod.Terminal {
		return v
	}
	profile, ok := c.cfg.Profiles[pod.SchedulerName]
	if !ok {
		v.Failed = "no profile " + pod.SchedulerName
		return v
	}
	var err error
	if v.Explanation, err = profile.Explain(c.question(pod)); err != nil {
		v.Failed = err.Error()
	}
	return v
}

func (c *Core) victimsFor(plan string) (list []explain.Promise) {
	if plan == "" {
		return nil
	}
	for _, d := range c.ledger.PlanDocs(plan) {
		for _, e := range victimsOf([]ledger.NodeDoc{d}, plan) {
			list = append(list, *c.promise(d, e))
		}
	}
	return list
}

// question is about all nodes; those that the shard leaves alone are excluded.
func (c *Core) question(pod *state.Pod) placement.Input {
	in := placement.Input{
		Pod: pod, Nodes: slices.Clone(c.view.Nodes()), Objects: c.view.Snapshot(), Excluded: map[string]string{},
	}
	for uid, because := range c.gate.Avoided() {
		in.Excluded[uid] = "node(s) left alone for now: " + because.String()
	}
	slices.SortFunc(in.Nodes, func(a, b *state.NodeInfo) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return in
}

// roles and states of entries, in words.
var (
	roles = map[ledger.Role]string{
		ledger.RoleReservation: "reservation", ledger.RoleVictim: "victim", ledger.RoleKeeper: "keeper",
		ledger.RoleMove: "move",
	}
	states = map[ledger.State]string{
		ledger.Held: "held", ledger.Committed: "committed", ledger.Fencing: "fencing", ledger.Evicting: "evicting",
	}
)

func (c *Core) promise(d ledger.NodeDoc, e ledger.Entry) *explain.Promise {
	p := &explain.Promise{
		Pod: e.Namespace + "/" + e.Name, UID: e.PodUID, Node: d.NodeName, Role: roles[e.Role], State: states[e.State],
		Shard: e.Shard, Plan: e.Plan,
	}
	if e.Role == ledger.RoleVictim {
		if _, owner, ok := c.ledger.PlanOwner(e.Plan); ok {
			p.For = owner.Namespace + "/" + owner.Name
		}
	}
	return p
}

func (c *Core) nodeView(name string) *explain.NodeView {
	at := slices.IndexFunc(c.view.Nodes(), func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if at < 0 {
		return nil
	}
	behind := c.view.Settle()
	n := c.view.Nodes()[at]
	v := &explain.NodeView{
		Name: name, UID: n.Node.UID, Pods: n.PodCount(), Cordoned: n.Node.Object.Spec.Unschedulable,
		Unusable: c.gate.Avoided()[n.Node.UID].String(),
	}
	if c.gate.Late(n) && behind > 0 && v.Unusable == "" {
		v.Unusable = "the facts about it are behind the ledger"
	}
	for _, t := range n.Node.Object.Spec.Taints {
		v.Taints = append(v.Taints, t.ToString())
	}
	total, used := n.Node.Allocatable.Map(), n.Requested.Map()
	used["pods"] = int64(n.PodCount())
	for _, resource := range slices.Sorted(maps.Keys(total)) {
		v.Resources = append(v.Resources, explain.Amount{Name: resource, Allocatable: total[resource], Used: used[resource]})
	}
	if d, ok := c.ledger.Doc(n.Node.UID); ok {
		for i := range d.Entries {
			v.Promises = append(v.Promises, *c.promise(d, d.Entries[i]))
		}
	}
	for p := range n.Pods() {
		known, ok := c.view.Pod(p.UID)
		v.Standing = append(v.Standing, explain.NodePod{
			Pod: p.Key(), Priority: p.Priority, Requests: p.Requests.Map(), Reserved: !ok || known.NodeName == "",
		})
	}
	slices.SortFunc(v.Standing, func(a, b explain.NodePod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Pod, b.Pod))
	})
	return v
}
