package view

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// Question is one of the two tests that a placement must pass on a node with holds or claims. On a node without
// any, both use the same NodeInfo.
type Question uint8

const (
	// Now: does the pod fit with what is on the node? Victims that have not left count, holds and placeholders do
	// not. A pod that passes may be bound.
	Now Question = iota + 1
	// Future: does the pod fit however plans end? A plan may be carried out, then the pod of its hold arrives and
	// its victims leave; or it is given up, then they stay. So of each plan the larger side counts, resource by
	// resource. A pod that does not pass would take room that is promised.
	Future
)

// Promised reports whether the two questions differ on a node.
func (v *View) Promised(nodeUID string) bool {
	d, _ := v.ledger.Doc(nodeUID)
	for i := range d.Entries {
		if differs(v.ledger.Plans(), d.Entries[i]) {
			return true
		}
	}
	return false
}

// differs reports whether the two questions see an entry differently.
func differs(plans *replica.Plans, e ledger.Entry) bool {
	return e.Role == ledger.RoleMove || e.Role == ledger.RoleReservation && e.State == ledger.Held ||
		plans.VictimOfLivePlan(e)
}

// Ask returns a node as one question sees it, for one plan, and without some pods (by UID), which the decision
// itself would evict or displace. Neither the hold nor the victims of that plan (empty for none) count in the
// future, as the decision is about them. Of other plans, both hold and victims are included with their ports and
// labels, and Requested includes the larger of the two.
//
// It returns the NodeInfo of Nodes if there is no difference, else a copy. Nodes itself counts both victims and
// holds, which is at least as strict as the two questions together.
func (v *View) Ask(q Question, nodeUID, plan string, without ...string) (*state.NodeInfo, bool) {
	s, ok := v.nodes.byUID[nodeUID]
	if !ok {
		return nil, false
	}
	a := answer{slot: s, info: s.info}
	for _, uid := range without {
		a.remove(v, uid)
	}
	d, _ := v.ledger.Doc(nodeUID)
	for _, e := range d.Entries {
		uid, held := promised(v.ledger.Plans(), e)
		switch {
		case uid == "", slices.Contains(without, uid):
		case q == Now && held, q == Future && plan != "" && e.Plan == plan:
			a.remove(v, uid)
		case q == Future && e.Plan != "":
			a.note(v, e.Plan, uid, held)
		}
	}
	a.larger()
	return a.info, true
}

// promised returns the UID under which an entry of a plan counts, empty if it belongs to none, and whether it is
// held; if not, it is a victim.
func promised(plans *replica.Plans, e ledger.Entry) (uid string, held bool) {
	switch {
	case e.Role == ledger.RoleMove:
		return placeholderPrefix + e.Token.String(), true
	case e.Role == ledger.RoleReservation && e.State == ledger.Held:
		return e.PodUID, true
	case plans.VictimOfLivePlan(e):
		return e.PodUID, false
	}
	return "", false
}

// answer is a NodeInfo that is copied at its first change.
type answer struct {
	slot   *slot
	info   *state.NodeInfo
	copied bool
	plans  map[string]*sides
}

// sides are the amounts that a plan holds on the node, and those of its victims there.
type sides struct{ held, leaving amounts }

// amounts are sums of requests, as NodeInfo has them.
type amounts struct{ requested, nonZero resources.Resources }

func (s *amounts) add(p *state.Pod) {
	s.requested, s.nonZero = s.requested.Add(p.Requests), s.nonZero.Add(p.NonZero)
}

// own copies the NodeInfo before its first change: the original belongs to the View.
func (a *answer) own() {
	if !a.copied {
		a.info, a.copied = a.info.Clone(), true
	}
}

// remove takes a pod off the node, if it counts there.
func (a *answer) remove(v *View, uid string) {
	if c, ok := v.tally.counted[uid]; ok && c.slot == a.slot {
		a.own()
		a.info.RemovePod(uid)
	}
}

// note records one side of a plan, if it counts on this node.
func (a *answer) note(v *View, plan, uid string, held bool) {
	c, ok := v.tally.counted[uid]
	if !ok || c.slot != a.slot {
		return
	}
	if a.plans == nil {
		a.plans = map[string]*sides{}
	}
	if a.plans[plan] == nil {
		a.plans[plan] = &sides{}
	}
	if held {
		a.plans[plan].held.add(c.pod)
	} else {
		a.plans[plan].leaving.add(c.pod)
	}
}

// larger subtracts the smaller side of each plan from the sums. As they are sums, the order of plans does not
// matter.
func (a *answer) larger() {
	for _, s := range a.plans {
		a.own()
		a.info.Requested = a.info.Requested.Sub(smaller(s.held.requested, s.leaving.requested))
		a.info.NonZeroRequested = a.info.NonZeroRequested.Sub(smaller(s.held.nonZero, s.leaving.nonZero))
		a.info.SetNode(a.info.Node) // another content, another Generation
	}
}

// smaller returns the smaller amount of each resource.
func smaller(a, b resources.Resources) resources.Resources {
	both := a.Map()
	for name, amount := range both {
		both[name] = min(amount, b.Get(name))
	}
	return resources.FromMap(both)
}

// Displaceable returns the holds on a node that a pod of this priority could displace (T4): those of strictly lower
// priority. Until they are displaced, their room is taken.
func (v *View) Displaceable(nodeUID string, priority int32) []ledger.Entry {
	var out []ledger.Entry
	d, _ := v.ledger.Doc(nodeUID)
	for _, e := range d.Entries {
		if e.Role == ledger.RoleReservation && e.State == ledger.Held && e.Priority < priority {
			out = append(out, e)
		}
	}
	return out
}
