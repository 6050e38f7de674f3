package answer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
)

// Shard is the state that answers are read from.
type Shard struct {
	View   *view.View
	Ledger *replica.View
	Gate   *avoid.Gate
	// Profiles by scheduler name.
	Profiles map[string]*placement.Profile
}

// Pod returns what the shard knows of a pod. For a waiting pod it evaluates all nodes with all rules.
func (s *Shard) Pod(pod *state.Pod) *explain.PodView {
	v := &explain.PodView{Nodes: len(s.View.Nodes()), Behind: s.View.Settle()}
	if d, e, ok := s.Ledger.Entry(pod.UID); ok {
		v.Promise = s.promise(d, e)
		v.Victims = s.victimsFor(e.Plan)
	}
	if d, e, ok := s.Ledger.Plans().Victim(pod.UID); ok {
		v.Claim = s.promise(d, e)
	}
	if pod.NodeName != "" || pod.Terminal {
		return v
	}
	profile, ok := s.Profiles[pod.SchedulerName]
	if !ok {
		v.Failed = "no profile " + pod.SchedulerName
		return v
	}
	var err error
	if v.Explanation, err = profile.Explain(s.question(pod)); err != nil {
		v.Failed = err.Error()
	}
	return v
}

func (s *Shard) victimsFor(plan string) (list []explain.Promise) {
	if plan == "" {
		return nil
	}
	for _, d := range s.Ledger.Plans().Docs(plan) {
		for _, e := range d.Victims(plan) {
			list = append(list, *s.promise(d, e))
		}
	}
	return list
}

// question covers all nodes; those that the shard leaves alone are excluded.
func (s *Shard) question(pod *state.Pod) placement.Input {
	in := placement.Input{
		Pod: pod, Nodes: slices.Clone(s.View.Nodes()), Objects: s.View.Snapshot(), Excluded: map[string]string{},
	}
	for uid, because := range s.Gate.Avoided() {
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

func (s *Shard) promise(d ledger.NodeDoc, e ledger.Entry) *explain.Promise {
	p := &explain.Promise{
		Pod: e.Namespace + "/" + e.Name, UID: e.PodUID, Node: d.NodeName, Role: roles[e.Role], State: states[e.State],
		Shard: e.Shard, Plan: e.Plan,
	}
	if e.Role == ledger.RoleVictim {
		if _, owner, ok := s.Ledger.Plans().Owner(e.Plan); ok {
			p.For = owner.Namespace + "/" + owner.Name
		}
	}
	return p
}

// Node returns what the shard knows of a node, nil if there is none of that name.
func (s *Shard) Node(name string) *explain.NodeView {
	at := slices.IndexFunc(s.View.Nodes(), func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if at < 0 {
		return nil
	}
	behind := s.View.Settle()
	n := s.View.Nodes()[at]
	v := &explain.NodeView{
		Name: name, UID: n.Node.UID, Pods: n.PodCount(), Cordoned: n.Node.Object.Spec.Unschedulable,
		Unusable: s.Gate.Avoided()[n.Node.UID].String(),
	}
	if s.Gate.Late(n) && behind > 0 && v.Unusable == "" {
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
	if d, ok := s.Ledger.Doc(n.Node.UID); ok {
		for i := range d.Entries {
			v.Promises = append(v.Promises, *s.promise(d, d.Entries[i]))
		}
	}
	for p := range n.Pods() {
		known, ok := s.View.Pod(p.UID)
		v.Standing = append(v.Standing, explain.NodePod{
			Pod: p.Key(), Priority: p.Priority, Requests: p.Requests.Map(), Reserved: !ok || known.NodeName == "",
		})
	}
	slices.SortFunc(v.Standing, func(a, b explain.NodePod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Pod, b.Pod))
	})
	return v
}
