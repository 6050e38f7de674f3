package view

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Question is one of the two a placement must pass on a node where pods are held for or
// claimed. Where none are, both are asked of the same NodeInfo.
type Question uint8

const (
	// Now: does it fit with what is there? Victims that have not gone count, holds and
	// placeholders do not. Who passes may be bound.
	Now Question = iota + 1
	// Future: does it fit when every plan has been carried out? Claimed victims do not count,
	// holds and placeholders of any priority do. Who does not pass takes what is promised.
	Future
)

// placeholderPrefix begins the UIDs under which placeholders count. No object has such.
const placeholderPrefix = "placeholder "

// placeholderKind is what a placeholder is to the rules about other pods: nothing they select.
var placeholderKind = &state.Kind{}

// Promised says whether the two questions differ on a node.
func (v *View) Promised(nodeUID string) bool {
	d, _ := v.ledger.Doc(nodeUID)
	for i := range d.Entries {
		if v.differs(d.Entries[i]) {
			return true
		}
	}
	return false
}

func (v *View) differs(e ledger.Entry) bool {
	return e.Role == ledger.RoleMove || e.Role == ledger.RoleReservation && e.State == ledger.Held || v.ledger.Going(e)
}

// Ask is a node as one question sees it, without some pods (by UID): the pod that is decided
// on, or holds that it would displace. It is the NodeInfo of Nodes if nothing is different,
// else a copy. Nodes itself counts victims and holds both, which is at least as strict as the
// two questions together.
func (v *View) Ask(q Question, nodeUID string, without ...string) (*state.NodeInfo, bool) {
	s, ok := v.byUID[nodeUID]
	if !ok {
		return nil, false
	}
	a := answer{slot: s, info: s.info}
	for _, uid := range without {
		a.remove(v, uid)
	}
	d, _ := v.ledger.Doc(nodeUID)
	for _, e := range d.Entries {
		switch {
		case q == Future && e.Role == ledger.RoleVictim:
			if v.ledger.Going(e) {
				a.remove(v, e.PodUID)
			}
		case q == Now && e.Role == ledger.RoleMove:
			a.remove(v, placeholderPrefix+e.Token.String())
		case q == Now && e.Role == ledger.RoleReservation && e.State == ledger.Held:
			a.remove(v, e.PodUID)
		}
	}
	return a.info, true
}

// answer is a NodeInfo that is copied at its first change.
type answer struct {
	slot   *slot
	info   *state.NodeInfo
	copied bool
}

func (a *answer) remove(v *View, uid string) {
	if c, ok := v.counted[uid]; !ok || c.slot != a.slot {
		return
	}
	if !a.copied {
		a.info, a.copied = a.info.Clone(), true
	}
	a.info.RemovePod(uid)
}

// Displaceable are the holds on a node that a pod of this priority could displace (T4): those
// of strictly lower priority. Their room is taken as long as nobody does.
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

// placeholder is where a placeholder counts, by the UID it counts under. It takes room, and
// no rule about other pods sees it: it is not the pod it stands for.
func (v *View) placeholder(uid string) (string, *state.Pod) {
	token, err := ledger.ParseToken(strings.TrimPrefix(uid, placeholderPrefix))
	if err != nil {
		return "", nil
	}
	d, e, ok := v.ledger.PlanOwner(ledger.PlanID(token, false))
	if !ok || e.Role != ledger.RoleMove || e.Token != token {
		return "", nil
	}
	p := podOfEntry(e)
	p.UID, p.Name, p.Kind = uid, "", placeholderKind
	return d.NodeName, p
}

// placeholdersOf are the UIDs under which a document's placeholders count.
func placeholdersOf(d ledger.NodeDoc) []string {
	var out []string
	for i := range d.Entries {
		if d.Entries[i].Role == ledger.RoleMove {
			out = append(out, placeholderPrefix+d.Entries[i].Token.String())
		}
	}
	return out
}

// keptFates bounds the memory of when claimed pods were first missed. One that is forgotten is
// missed again at a later resourceVersion, which delays the settling of its budget.
const keptFates = 4096

// VictimFate answers ledger.ClaimFacts: what the API view says of a claimed pod. A pod that has
// ended is as good as gone.
func (v *View) VictimFate(podUID string, podRV uint64) (ledger.Fate, uint64) {
	p, known := v.snapshot.Pod(podUID)
	switch {
	case known && p.Terminal:
		return ledger.Left, p.ResourceVersion
	case known && p.Deleting:
		return ledger.Leaving, p.ResourceVersion
	case known || v.PodProgress() == 0 || v.PodProgress() < podRV:
		return ledger.Staying, 0
	}
	if rv, missed := v.left[podUID]; missed {
		return ledger.Left, rv
	}
	v.miss(podUID, v.PodProgress())
	return ledger.Left, v.PodProgress()
}

func (v *View) miss(podUID string, rv uint64) {
	if v.left == nil || len(v.left) >= keptFates {
		v.left = map[string]uint64{}
	}
	v.left[podUID] = rv
}

// BudgetProgress answers ledger.ClaimFacts: the applied progress of disruption budgets, 0
// while undefined.
func (v *View) BudgetProgress() uint64 {
	rv, ok := v.store.Position().Progress(events.KindDisruptionBudget)
	if !ok {
		return 0
	}
	return rv
}

// Room is a disruption budget as a decision on this View sees it: what the status allows, if
// it is about the present spec, and what has been claimed.
func (v *View) Room(pdb *policyv1.PodDisruptionBudget) ledger.BudgetRoom {
	r := ledger.BudgetRoom{Doc: v.ledger.Budget(string(pdb.UID))}
	r.Doc.Namespace, r.Doc.Name = pdb.Namespace, pdb.Name
	if pdb.Status.ObservedGeneration >= pdb.Generation {
		r.Allowed = pdb.Status.DisruptionsAllowed
	}
	return r
}
