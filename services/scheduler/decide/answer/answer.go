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

// Shard is the state that answers are read from: the part of shard.State that people ask about. All fields are
// required.
type Shard struct {
	View   *view.View
	Ledger *replica.View
	Gate   *avoid.Gate
	// Profiles by scheduler name.
	Profiles map[string]*placement.Profile
}

// Pod returns what the shard knows of a pod: its place in the ledger with the victims that leave for it, the plan
// whose victim it is, and, for a waiting pod, why each node is rejected. Errors are part of the answer (Failed).
func (s *Shard) Pod(pod *state.Pod) *explain.PodView {
	v := &explain.PodView{Nodes: len(s.View.Nodes()), Behind: s.View.Settle()}
	if d, e, ok := s.Ledger.Entry(pod.UID); ok {
		v.Promise = s.promise(d, e)
		v.Victims = s.victimsFor(e.Plan)
	}
	// A pod may be both: bound or reserved, and the victim of another pod's plan.
	if d, e, ok := s.Ledger.Plans().Victim(pod.UID); ok {
		v.Claim = s.promise(d, e)
	}
	// Why a pod is pending is asked only of one that is.
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

// victimsFor returns the claims of a plan, nil for no plan.
func (s *Shard) victimsFor(plan string) (list []explain.LedgerEntry) {
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

// question returns the input of an evaluation of a pod on all nodes, sorted by name; those that the shard leaves
// alone are excluded, with the reason.
func (s *Shard) question(pod *state.Pod) placement.Input {
	in := placement.Input{
		Pod: pod, Nodes: slices.Clone(s.View.Nodes()), Objects: s.View.Snapshot(), Excluded: map[string]string{},
	}
	for uid, because := range s.Gate.AvoidedNodes() {
		in.Excluded[uid] = "node(s) left alone for now: " + because.String()
	}
	slices.SortFunc(in.Nodes, func(a, b *state.NodeInfo) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return in
}

// roles and states of entries, in the words of messages and pages.
var (
	roles = map[ledger.Role]string{
		ledger.RoleReservation: "reservation", ledger.RoleVictim: "victim", ledger.RoleKeeper: "keeper",
		ledger.RoleMove: "move",
	}
	states = map[ledger.State]string{
		ledger.Held: "held", ledger.Committed: "committed", ledger.Fencing: "fencing", ledger.Evicting: "evicting",
	}
)

// promise returns an entry in words; for a victim also the pod for which it is evicted.
func (s *Shard) promise(d ledger.NodeDoc, e ledger.Entry) *explain.LedgerEntry {
	p := &explain.LedgerEntry{
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

// Node returns what the shard knows of a node, nil if there is none of that name: its resources, the entries of its
// document, and the pods that count on it, most important first.
func (s *Shard) Node(name string) *explain.NodeView {
	// The view knows nodes by UID; answers are rare enough to search.
	at := slices.IndexFunc(s.View.Nodes(), func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if at < 0 {
		return nil
	}
	// Settle updates which nodes the gate lets be used; it is idempotent.
	behind := s.View.Settle()
	n := s.View.Nodes()[at]
	v := &explain.NodeView{
		Name: name, UID: n.Node.UID, Pods: n.PodCount(), Cordoned: n.Node.Object.Spec.Unschedulable,
		Unusable: s.Gate.AvoidedNodes()[n.Node.UID].String(), Marks: n.Node.Marks,
	}
	if s.Gate.Behind(n) && behind > 0 && v.Unusable == "" {
		v.Unusable = "the facts about it are behind the ledger"
	}
	for _, t := range n.Node.Object.Spec.Taints {
		v.Taints = append(v.Taints, t.ToString())
	}
	total, used := n.Node.Allocatable.Map(), n.Requested.Map()
	// Requests do not count pods: the node's list does.
	used["pods"] = int64(n.PodCount())
	for _, resource := range slices.Sorted(maps.Keys(total)) {
		v.Resources = append(v.Resources, explain.Amount{Name: resource, Allocatable: total[resource], Used: used[resource]})
	}
	if d, ok := s.Ledger.Doc(n.Node.UID); ok {
		for i := range d.Entries {
			v.Promises = append(v.Promises, *s.promise(d, d.Entries[i]))
		}
	}
	// A pod counts as reserved until the facts show it bound.
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
