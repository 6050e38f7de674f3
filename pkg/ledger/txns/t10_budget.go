package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// BudgetRoom is a disruption budget as one decision sees it.
type BudgetRoom struct {
	Doc ledger.BudgetDoc
	// Shared is a document without claims that every claim on a budget of the namespace compares and puts,
	// whichever budget the claim is on. Without it, two members that know different budgets over the same pods
	// would have no key in common. Its HW[KindBudget] is the progress of facts about budgets up to which claims
	// have been made. It is left out if it is the zero value.
	Shared ledger.BudgetDoc
	// Ahead: a lost compare has shown Shared with another member's claims, which the watch has yet to deliver.
	Ahead bool
	// Allowed is status.disruptionsAllowed in the facts, 0 if the status is not up to date with the spec.
	Allowed int32
	// Others are claims on pods that the budget covers which were not made from it: from one of the same name
	// before it was deleted and created again, or from before it covered the pod. Their evictions take from this
	// budget.
	Others []ledger.BudgetClaim
	// Count holds the budget's pods, as the facts show them. With nil the status alone is used, which is enough for a
	// budget from which nothing was ever claimed, in a namespace where no pod is claimed.
	Count *BudgetCount
	// Exceed: claim although there is no room (for a profile that treats budgets as a preference).
	Exceed bool
}

// BudgetCount is a disruption budget as counted by Berth itself. The status is not enough: the disruption
// controller empties its map of disrupted pods after two minutes by the controller's clock, and nothing shows a pod
// that leaves until the controller has noticed (docs/models.md).
type BudgetCount struct {
	// Healthy are the pods that the budget covers and the disruption controller would count
	// (countHealthyPods, pkg/controller/disruption): ready, and not being deleted.
	Healthy []string
	// Desired is status.desiredHealthy.
	Desired int32
}

// BudgetError reports that a disruption budget has no room for the requested claims.
type BudgetError struct {
	UID, Namespace, Name string
	// Allowed is the number that the status allows, Claimed the claims that do not show in it yet, Wanted the requested
	// claims.
	Allowed         int32
	Claimed, Wanted int
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("ledger: disruption budget %s/%s (%s) allows %d, %d of which are claimed: %d more cannot be",
		e.Namespace, e.Name, e.UID, e.Allowed, e.Claimed, e.Wanted)
}

// Free returns how many disruptions can be claimed: what the status allows minus the claims that it cannot show
// yet, and no more than the healthy pods that are neither claimed nor needed. known is false when the facts are too
// old.
func (r BudgetRoom) Free(facts ClaimFacts) (free int, known bool) {
	p := facts.BudgetProgress()
	if p == 0 || p < max(r.Doc.HW[ledger.KindBudget], r.Shared.HW[ledger.KindBudget]) || r.Ahead {
		return 0, false
	}
	if r.Count != nil && facts.PodProgress() < r.Doc.HW[ledger.KindPod] {
		return 0, false
	}
	open := 0
	for _, c := range slices.Concat(r.Doc.Claims, r.Others) {
		if _, done := reflected(c, facts); !done {
			open++
		}
	}
	free = int(r.Allowed) - open
	if r.Count != nil {
		free = min(free, r.Spare())
	}
	return max(free, 0), true
}

// Spare returns how many of the counted healthy pods are neither claimed nor needed; less than 0 if too few are
// healthy.
func (r BudgetRoom) Spare() int {
	spare := -int(r.Count.Desired)
	for _, uid := range r.Count.Healthy {
		other := func(c ledger.BudgetClaim) bool { return c.PodUID == uid }
		if !r.Doc.Claimed(uid) && !slices.ContainsFunc(r.Others, other) {
			spare++
		}
	}
	return spare
}

// reflected reports whether the budget's status shows the claim: the victim is leaving (the eviction took from the
// budget before it deleted the pod), and the facts about budgets are past that.
func reflected(c ledger.BudgetClaim, facts ClaimFacts) (rv uint64, done bool) {
	fate, rv := facts.VictimFate(c.PodUID, c.PodRV)
	return rv, fate != Staying && facts.BudgetProgress() >= rv
}

// ClaimBudget is the first half of T10 (budget claim): it adds claims to a budget's document, all or none.
// *BudgetError if there is no room, *RefusedError if the facts are too old or a victim is claimed from this budget
// already. Claims that are Regardless need no room, but take it from later ones.
//
// It is part of T2 and T12, which also claim the victim in its node's document. That claim shows whether an
// eviction may be under way; without it no member could know when to drop the budget claim. A crash after it leaves
// claims that T8 drops if no eviction was sent, and that SettleBudget drops otherwise.
func ClaimBudget(r BudgetRoom, facts ClaimFacts, claims ...ledger.BudgetClaim) (ledger.BudgetDoc, error) {
	const step = "T10 budget claim"
	free, known := r.Free(facts)
	if !known {
		return ledger.BudgetDoc{}, r.unknown(step, facts)
	}
	if wanted := needingRoom(claims); free < wanted && !r.Exceed {
		return ledger.BudgetDoc{}, &BudgetError{
			UID: r.Doc.UID, Namespace: r.Doc.Namespace, Name: r.Doc.Name,
			Allowed: r.Allowed, Claimed: int(r.Allowed) - free, Wanted: wanted,
		}
	}
	b := r.Doc.Clone()
	for _, c := range claims {
		if c.PodUID == "" || c.PodRV == 0 {
			return ledger.BudgetDoc{}, fmt.Errorf("ledger: %s: claim %+v: want a pod UID and a resourceVersion", step, c)
		}
		if b.Claimed(c.PodUID) {
			return ledger.BudgetDoc{}, &RefusedError{Step: step, PodUID: c.PodUID, Reason: "it is claimed from budget " + b.UID}
		}
		c.Regardless = c.Regardless || r.Exceed
		b.Claims = append(b.Claims, c)
	}
	if err := b.CheckRoom(); err != nil {
		return ledger.BudgetDoc{}, err
	}
	return b, nil
}

// needingRoom counts the claims that are only made if the budget has room.
func needingRoom(claims []ledger.BudgetClaim) (n int) {
	for _, c := range claims {
		if !c.Regardless {
			n++
		}
	}
	return n
}

// unknown refuses a claim because too little is known of the budget.
func (r BudgetRoom) unknown(step string, facts ClaimFacts) *RefusedError {
	if r.Ahead {
		return &RefusedError{Step: step, Reason: fmt.Sprintf(
			"the watch has yet to show what others have claimed in namespace %s", r.Doc.Namespace)}
	}
	return &RefusedError{Step: step, Reason: fmt.Sprintf(
		"the facts about disruption budgets have reached %d and those about pods %d, budget %s needs %d and %d",
		facts.BudgetProgress(), facts.PodProgress(), r.Doc.UID,
		max(r.Doc.HW[ledger.KindBudget], r.Shared.HW[ledger.KindBudget], 1), r.Doc.HW[ledger.KindPod])}
}

// share returns Shared after a claim by these facts; false if it is left out.
func (r BudgetRoom) share(facts ClaimFacts) (ledger.BudgetDoc, bool) {
	b := r.Shared.Clone()
	b.HW = ledger.Raised(b.HW, ledger.KindBudget, facts.BudgetProgress())
	return b, b.UID != ""
}

// SettleBudget is the second half of T10 (budget settle). It drops the claims that the budget's status shows by
// itself, because the victim is leaving or gone and the facts about budgets are past that, and raises both
// high-waters accordingly. It returns the document and whether it changed.
//
// Carry it out with a Change, alone or together with other steps: compares b/<uid>.ModRevision, puts the document.
// A crash before it leaves claims that every member counts as reflected already.
func SettleBudget(b ledger.BudgetDoc, facts ClaimFacts) (ledger.BudgetDoc, bool) {
	var kept []ledger.BudgetClaim
	var hw uint64
	for _, c := range b.Claims {
		rv, done := reflected(c, facts)
		if !done {
			kept = append(kept, c)
			continue
		}
		hw = max(hw, rv)
	}
	if len(kept) == len(b.Claims) {
		return b, false
	}
	b = b.Clone()
	b.Claims = kept
	b.HW = ledger.Raised(ledger.Raised(b.HW, ledger.KindBudget, hw), ledger.KindPod, hw)
	return b, true
}

// Failure proves that no eviction of a claimed victim is under way: the API server has refused the one that was
// sent.
type Failure struct {
	// BudgetRV is the budget's resourceVersion as read after the refusal. The refused call may have taken from the
	// budget (for two minutes), and the next claimant must know that.
	BudgetRV uint64
}

// CoverBudget returns the document with its high-water of budgets at rv or higher: a refused
// eviction may have taken from the budget, although its claim stays.
func CoverBudget(b ledger.BudgetDoc, f Failure) ledger.BudgetDoc {
	b = b.Clone()
	b.HW = ledger.Raised(b.HW, ledger.KindBudget, f.BudgetRV)
	return b
}

// UnclaimBudget drops the claim on a victim whose eviction has failed for good, or was never sent (then the failure
// is zero). It returns the document and whether it changed. The same transaction must reset or drop the victim's
// own claim: FailEviction, AbortPlan.
func UnclaimBudget(b ledger.BudgetDoc, podUID string, f Failure) (ledger.BudgetDoc, bool) {
	i := b.ClaimIndex(podUID)
	if i < 0 {
		return b, false
	}
	b = b.Clone()
	b.Claims = slices.Delete(b.Claims, i, i+1)
	b.HW = ledger.Raised(b.HW, ledger.KindBudget, f.BudgetRV)
	return b, true
}
