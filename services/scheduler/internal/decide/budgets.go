package decide

import (
	"maps"
	"math"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// budgetBook keeps the disruption budgets as the engine sees them. The engine looks at every
// covered node again when it is given others, so they stay the same until they are not.
type budgetBook struct {
	stale   bool
	budgets *preempt.Budgets
	// taken is what the status of each, by UID, does not show yet; claims: some is.
	taken  map[string]int32
	claims bool
	// unknown: what is left of one cannot be told until more facts have come.
	unknown bool
	// scarce are budgets from which a claim was refused, by UID, and their resourceVersions: their pods are counted
	// until the object changes.
	scarce map[string]uint64
	// versions are the objects that budgets were made of, by UID.
	versions map[string]uint64
}

// budgetsNow are the disruption budgets, less what has been claimed of them.
func (c *Core) budgetsNow() *preempt.Budgets {
	b := &c.plans.budgets
	if b.budgets != nil && !b.stale {
		return b.budgets
	}
	taken, versions := map[string]int32{}, map[string]uint64{}
	b.claims, b.unknown = false, false
	for o := range c.view.Snapshot().Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		versions[o.UID] = o.ResourceVersion
		room, scarce := b.estimate(c, pdb, o.ResourceVersion)
		b.claims = b.claims || scarce || len(room.Doc.Claims)+len(room.Others) > 0
		free, known := room.Free(c.view)
		switch {
		case !known:
			b.unknown = true
			taken[o.UID] = math.MaxInt32 / 2
		case int32(free) != pdb.Status.DisruptionsAllowed:
			taken[o.UID] = pdb.Status.DisruptionsAllowed - int32(free)
		}
	}
	b.stale = false
	if b.budgets == nil || !maps.Equal(b.taken, taken) || !maps.Equal(b.versions, versions) {
		b.taken, b.versions = taken, versions
		b.budgets = preempt.NewBudgets(c.view.Snapshot(), func(uid string) int32 { return taken[uid] })
	}
	return b.budgets
}

// estimate is the room left in a budget, and whether a claim on it was refused as it stands. Pods are counted for
// those and where something is claimed, and not for all: a search has as many budgets before it as there are.
func (b *budgetBook) estimate(c *Core, pdb *policyv1.PodDisruptionBudget, rv uint64) (ledger.BudgetRoom, bool) {
	if refused, scarce := b.scarce[string(pdb.UID)]; scarce && refused == rv {
		return c.view.Room(pdb), true
	}
	delete(b.scarce, string(pdb.UID))
	return c.view.Estimate(pdb), false
}

// refused keeps that a budget has less room than was thought.
func (b *budgetBook) refused(uid string) {
	if b.scarce == nil {
		b.scarce = map[string]uint64{}
	}
	b.scarce[uid], b.stale = b.versions[uid], true
}

// rooms are the budgets that a plan takes from, as a transaction claims from them.
func (c *Core) rooms(uses []preempt.BudgetUse, exceed bool) ([]ledger.BudgetRoom, bool) {
	var out []ledger.BudgetRoom
	for _, u := range uses {
		o, ok := c.view.Snapshot().Object(events.KindDisruptionBudget, u.Budget.UID)
		if !ok {
			return nil, false
		}
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			return nil, false
		}
		room := c.view.Room(pdb)
		room.Exceed = exceed
		out = append(out, room)
	}
	return out, true
}
