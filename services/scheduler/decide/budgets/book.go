package budgets

import (
	"maps"
	"math"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// Book keeps the disruption budgets in the form that the engine uses. When the engine gets other budgets, it
// evaluates every covered node again, so they stay the same value until one changes.
//
// A budget has left what its status allows, less the claims in the ledger that the status cannot show yet
// (txns.BudgetRoom). A search uses an estimate of that; the claim in the transaction uses the exact value, and may
// be refused. Then the budget is counted exactly until its object changes.
type Book struct {
	Shard *shard.State
	// stale: budgets must be read again before the next search. The zero Book, with Shard set, has no budgets and reads
	// them first.
	stale   bool
	budgets *preempt.Budgets
	// taken is how much of each budget, by UID, is used but not in its status yet; claims: at least one budget has
	// claims.
	taken  map[string]int32
	claims bool
	// unknown: what is left of a budget is not known until more facts have arrived.
	unknown bool
	// scarce are the budgets that refused a claim, by UID, with their resourceVersions: their pods are counted until
	// the object changes.
	scarce map[string]uint64
	// versions are the resourceVersions of the objects from which budgets was built, by UID.
	versions map[string]uint64
}

// Current returns the disruption budgets, less what has been claimed of them. It is the same pointer until a budget
// or a claim has changed. Of a budget whose rest is not known, everything counts as taken.
func (b *Book) Current() *preempt.Budgets {
	if b.budgets != nil && !b.stale {
		return b.budgets
	}
	taken, versions := map[string]int32{}, map[string]uint64{}
	b.claims, b.unknown = false, false
	for o := range b.Shard.View.Snapshot().Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		versions[o.UID] = o.ResourceVersion
		room, scarce := b.estimate(pdb, o.ResourceVersion)
		b.claims = b.claims || scarce || len(room.Doc.Claims)+len(room.Others) > 0
		free, known := room.Free(b.Shard.View.TxnFacts())
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
		b.budgets = preempt.NewBudgets(b.Shard.View.Snapshot(), func(uid string) int32 { return taken[uid] })
	}
	return b.budgets
}

// estimate returns the room left in a budget, and whether a claim on this version of it was refused. Pods are
// counted only in that case and if there are claims, not for every budget: a search considers all budgets that
// exist.
func (b *Book) estimate(pdb *policyv1.PodDisruptionBudget, rv uint64) (txns.BudgetRoom, bool) {
	if refused, scarce := b.scarce[string(pdb.UID)]; scarce && refused == rv {
		return b.Shard.View.Budgets().Room(pdb), true
	}
	delete(b.scarce, string(pdb.UID))
	return b.Shard.View.Budgets().Estimate(pdb), false
}

// NoteRefused notes that a budget has less room than was assumed.
func (b *Book) NoteRefused(uid string) {
	if b.scarce == nil {
		b.scarce = map[string]uint64{}
	}
	b.scarce[uid], b.stale = b.versions[uid], true
}

// RoomsFor returns the budgets that a plan uses, in the form in which a transaction claims from them; false if the
// facts do not have one any more. exceed: the profile lets plans exceed budgets (bestEffort), and the claims are
// marked so.
func (b *Book) RoomsFor(uses []preempt.BudgetUse, exceed bool) ([]txns.BudgetRoom, bool) {
	var out []txns.BudgetRoom
	for _, u := range uses {
		o, ok := b.Shard.View.Snapshot().Object(events.KindDisruptionBudget, u.Budget.UID)
		if !ok {
			return nil, false
		}
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			return nil, false
		}
		room := b.Shard.View.Budgets().Room(pdb)
		room.Exceed = exceed
		out = append(out, room)
	}
	return out, true
}

// FollowLedger notes a change of the ledger; budgets: the document of a budget has changed. Any change may make
// known what is left of a budget that was unknown.
func (b *Book) FollowLedger(budgets bool) { b.stale = b.stale || b.unknown || budgets }

// FollowFacts applies changes of facts. A change of any pod, or the progress of the facts alone, may settle a claim, or
// change how many pods of a budget are healthy; budgets without claims depend on their own object only.
func (b *Book) FollowFacts(changes state.Changes) {
	b.stale = b.stale || b.unknown || b.claims
	for i := range changes.Others {
		b.stale = b.stale || changes.Others[i].Kind == events.KindDisruptionBudget
	}
}

// Reread makes the budgets be read again before the next search.
func (b *Book) Reread() { b.stale = true }

// RereadClaims makes the budgets be read again if any of them has claims.
func (b *Book) RereadClaims() { b.stale = b.stale || b.claims }

// Unknown reports whether what is left of a budget is not known until more facts have arrived.
func (b *Book) Unknown() bool { return b.unknown }
