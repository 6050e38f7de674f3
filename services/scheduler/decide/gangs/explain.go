package gangs

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Explain returns what the shard knows of a group, for people: nil if there is neither an object nor a pod of it. It
// changes nothing.
func (f *Former) Explain(namespace, name string) *explain.GangView {
	snapshot := f.Shard.View.Snapshot()
	v := &explain.GangView{Namespace: namespace, Name: name, Behind: f.Shard.View.Settle(), Counts: map[string]int{}}
	g := gang.Find(snapshot, namespace, name)
	if g != nil {
		v.UID, v.Topology = g.UID, g.Topology
		v.Condition = conditionOf(snapshot, namespace, name)
	}
	if g != nil && g.Gang {
		v.MinCount = g.MinCount
	}
	var waiting []*state.Pod
	var placed []string
	for p := range snapshot.PodsOfGroup(namespace, name) {
		m := f.member(p)
		if v.Counts[m.State]++; len(v.Members) < explain.MaxMembers {
			v.Members = append(v.Members, m)
		}
		switch m.State {
		case explain.MemberWaiting:
			waiting = append(waiting, p)
		case explain.MemberBound, explain.MemberReserved:
			placed = append(placed, m.Node)
		}
	}
	if g == nil && len(v.Members) == 0 {
		return nil
	}
	if g != nil && len(waiting) > 0 {
		f.explainRoom(v, g, waiting, placed)
	}
	return v
}

// conditionOf returns the condition of a group in words.
func conditionOf(objects rule.Objects, namespace, name string) string {
	obj, ok := rule.Find[*schedulingv1alpha2.PodGroup](objects, events.KindPodGroup, namespace, name)
	if !ok {
		return ""
	}
	c := meta.FindStatusCondition(obj.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
	switch {
	case c == nil:
		return ""
	case c.Message == "":
		return fmt.Sprintf("%s, %s", c.Status, c.Reason)
	}
	return fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)
}

// member returns how far a pod is.
func (f *Former) member(p *state.Pod) explain.GangMember {
	m := explain.GangMember{Pod: p.Key(), UID: p.UID, Node: p.NodeName, State: explain.MemberWaiting}
	doc, e, reserved := f.Shard.Ledger.Entry(p.UID)
	switch {
	case p.Terminal:
		m.State = explain.MemberEnded
	case p.Deleting:
		m.State = explain.MemberDeleting
	case p.NodeName != "":
		m.State = explain.MemberBound
	case reserved && e.State == ledger.Committed:
		m.State, m.Node = explain.MemberReserved, doc.NodeName
	case reserved && e.State == ledger.Held:
		m.State, m.Node = explain.MemberHeld, doc.NodeName
	case reserved:
		m.State, m.Node = explain.MemberFencing, doc.NodeName
	case p.Gated:
		m.State = explain.MemberGated
	}
	for _, c := range p.Status().Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			m.Message = c.Message
		}
	}
	return m
}

// explainRoom adds what the waiting members need, and where it could be.
func (f *Former) explainRoom(v *explain.GangView, g *gang.Group, waiting []*state.Pod, placed []string) {
	v.Need = max(g.MinCount-len(placed)-v.Counts[explain.MemberHeld], 1)
	domains, err := f.Search.Domains(g.Topology, waiting, placed)
	if err != nil {
		v.Failed = unpinned(err)
		return
	}
	v.DomainCount = len(domains)
	slices.Reverse(domains)
	for _, d := range domains[:min(len(domains), explain.MaxDomains)] {
		v.Domains = append(v.Domains, explain.GangDomain{Name: d.Name, Nodes: len(d.Nodes), Slots: d.Slots})
	}
}

// unpinned returns the message for a gang whose members with a place are not in one domain.
func unpinned(err error) string {
	return fmt.Sprintf("cannot determine domain for already scheduled pods: %v", err)
}
