package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// planRecorded is the prefix of the ids of plans that have a record.
const planRecorded = "large-"

// PlanID returns the id of the plan that starts with a hold (or placeholder) of this token. A recorded plan takes
// more than one transaction: its victims count as claimed only while plan/<id> is Ready.
func PlanID(owner Token, recorded bool) string {
	if recorded {
		return planRecorded + owner.String()
	}
	return owner.String()
}

// IsRecorded reports whether a plan has a record at plan/<id>.
func IsRecorded(plan string) bool { return strings.HasPrefix(plan, planRecorded) }

// planPrepared is the prefix of the ids of plans without victims.
const planPrepared = "prepare-"

// PreparedPlan returns the id of a plan that consists of the hold of this token alone. No pod has to leave, but
// plugins of the pod's shard have work to do before the pod may be bound. A shard that owns the pod's partition
// without having the plugins' state gives the place up.
func PreparedPlan(owner Token) string { return planPrepared + owner.String() }

// IsPrepared reports whether a plan is one of PreparedPlan.
func IsPrepared(plan string) bool { return strings.HasPrefix(plan, planPrepared) }

// PreparedFor is how long plugins may take with such a hold: as long as upstream lets a pod wait for Permit
// (maxTimeout in pkg/scheduler/framework/runtime, 15 min), plus some time for the steps before the bind.
const PreparedFor = 20 * time.Minute

// DelegatedFor is how long plugins may take for a bind (Entry.Delegated): as long as binders try before they take a
// place back.
const DelegatedFor = 30 * time.Second

// NodeEntry is an entry and the node it belongs to.
type NodeEntry struct {
	NodeUID string
	Entry   Entry
}

// Claim adds the claim of a running pod as a victim of a plan to its node's document. It copies the victim's
// PodUID, Namespace, Name, PodRV, Priority, NotAfter and Budgets (all disruption budgets that cover it). Each
// victim is claimed by at most one plan, and no pod that a placement relies on is claimed: *ClaimedError.
func Claim(d NodeDoc, victim Entry, plan string) (NodeDoc, error) {
	if plan == "" || victim.PodRV == 0 {
		return NodeDoc{}, fmt.Errorf("ledger: claim of pod %s: plan %q at resourceVersion %d: want both",
			victim.PodUID, plan, victim.PodRV)
	}
	return Place(d, Entry{
		PodUID: victim.PodUID, Namespace: victim.Namespace, Name: victim.Name, Role: RoleVictim,
		Priority: victim.Priority, PodRV: victim.PodRV, Plan: plan, Budgets: sorted(victim.Budgets),
		NotAfter: victim.NotAfter,
	})
}

// Victim returns the claim on a pod, and false if there is none in this document.
func (d NodeDoc) Victim(podUID string) (Entry, bool) {
	if i := d.victim(podUID); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

func (d NodeDoc) victim(podUID string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool { return e.Role == RoleVictim && e.PodUID == podUID })
}

// Victims returns the claims of a plan in the document, in document order.
func (d NodeDoc) Victims(plan string) (victims []Entry) {
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Role == RoleVictim && e.Plan == plan {
			victims = append(victims, *e)
		}
	}
	return victims
}

// Owner returns the hold or placeholder that a plan works for, and false if it is not in this document.
func (d NodeDoc) Owner(plan string) (Entry, bool) {
	if i := d.owner(plan); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

func (d NodeDoc) owner(plan string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool { return plan != "" && e.Plan == plan && e.owns() })
}

// owns reports whether the entry is the hold or placeholder that a plan works for.
func (e Entry) owns() bool {
	return e.Role == RoleMove || e.Role == RoleReservation && e.State == Held
}

// docSet holds the documents of a transaction under construction, by node, in the order given.
type docSet struct {
	step string
	docs []NodeDoc
}

func (s *docSet) at(nodeUID string) int {
	return slices.IndexFunc(s.docs, func(d NodeDoc) bool { return d.NodeUID == nodeUID })
}

// change replaces one document by the result of f.
func (s *docSet) change(nodeUID, podUID string, f func(NodeDoc) (NodeDoc, error)) error {
	i := s.at(nodeUID)
	if i < 0 {
		return &RefusedError{Step: s.step, NodeUID: nodeUID, PodUID: podUID, Reason: "the node's document is not given"}
	}
	d, err := f(s.docs[i])
	if err != nil {
		return err
	}
	s.docs[i] = d
	return nil
}

// claim makes claims on victims in their documents and in the budgets that cover them. In the result, the documents
// that the budgets of a namespace share follow those of the budgets.
func (s *docSet) claim(victims []NodeEntry, plan string, rooms []BudgetRoom, facts ClaimFacts) ([]BudgetDoc, error) {
	claims := map[string][]BudgetClaim{}
	for _, v := range victims {
		err := s.change(v.NodeUID, v.Entry.PodUID, func(d NodeDoc) (NodeDoc, error) { return Claim(d, v.Entry, plan) })
		if err != nil {
			return nil, err
		}
		for _, uid := range sorted(v.Entry.Budgets) {
			claims[uid] = append(claims[uid], BudgetClaim{PodUID: v.Entry.PodUID, PodRV: v.Entry.PodRV, Plan: plan})
		}
	}
	var out, shared []BudgetDoc
	for _, r := range rooms {
		if len(claims[r.Doc.UID]) == 0 {
			continue
		}
		b, err := ClaimBudget(r, facts, claims[r.Doc.UID]...)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
		delete(claims, r.Doc.UID)
		all, is := r.share(facts)
		if is && !slices.ContainsFunc(shared, func(b BudgetDoc) bool { return b.UID == all.UID }) {
			shared = append(shared, all)
		}
	}
	for _, v := range victims {
		for _, uid := range v.Entry.Budgets {
			if _, missing := claims[uid]; missing {
				return nil, &RefusedError{Step: s.step, NodeUID: v.NodeUID, PodUID: v.Entry.PodUID,
					Reason: fmt.Sprintf("it is covered by disruption budget %s, which is not given", uid)}
			}
		}
	}
	return append(out, shared...), nil
}
