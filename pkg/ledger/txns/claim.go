package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// NodeEntry is an entry and the node it belongs to.
type NodeEntry struct {
	NodeUID string
	Entry   ledger.Entry
	// Request means that the entry is a victim whose eviction can only be requested (state.Pod.EvictsByRequest). It is
	// claimed from its budgets whether they have room or not, and the claims are marked Regardless: the API server
	// checks the budgets when the request arrives, and another controller makes the pod leave.
	Request bool
}

// ClaimVictim adds the claim of a running pod as a victim of a plan to its node's document. It copies the victim's
// PodUID, Namespace, Name, PodRV, Priority, NotAfter and Budgets (all disruption budgets that cover it). Each
// victim is claimed by at most one plan, and no pod that a placement relies on is claimed: *ClaimedError.
func ClaimVictim(d ledger.NodeDoc, victim ledger.Entry, plan string) (ledger.NodeDoc, error) {
	if plan == "" || victim.PodRV == 0 {
		return ledger.NodeDoc{}, fmt.Errorf("ledger: claim of pod %s: plan %q at resourceVersion %d: want both",
			victim.PodUID, plan, victim.PodRV)
	}
	return Place(d, ledger.Entry{
		PodUID: victim.PodUID, Namespace: victim.Namespace, Name: victim.Name, Role: ledger.RoleVictim,
		Priority: victim.Priority, PodRV: victim.PodRV, Plan: plan,
		Budgets:  slices.Compact(slices.Sorted(slices.Values(victim.Budgets))),
		NotAfter: victim.NotAfter,
	})
}

// docSet holds the documents of a transaction under construction, by node, in the order given.
type docSet struct {
	step string
	docs []ledger.NodeDoc
}

func (s *docSet) at(nodeUID string) int {
	return slices.IndexFunc(s.docs, func(d ledger.NodeDoc) bool { return d.NodeUID == nodeUID })
}

// latest returns a document as it is in the set, or as given if the set does not have it.
func (s *docSet) latest(d ledger.NodeDoc) ledger.NodeDoc {
	if i := s.at(d.NodeUID); i >= 0 {
		return s.docs[i]
	}
	return d
}

// put adds documents, or replaces them.
func (s *docSet) put(docs ...ledger.NodeDoc) {
	for _, d := range docs {
		if i := s.at(d.NodeUID); i >= 0 {
			s.docs[i] = d
			continue
		}
		s.docs = append(s.docs, d)
	}
}

// change replaces one document by the result of f.
func (s *docSet) change(nodeUID, podUID string, f func(ledger.NodeDoc) (ledger.NodeDoc, error)) error {
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
func (s *docSet) claim(victims []NodeEntry, plan string, rooms []BudgetRoom, facts ClaimFacts) ([]ledger.BudgetDoc,
	error) {
	claims := map[string][]ledger.BudgetClaim{}
	for _, v := range victims {
		err := s.change(v.NodeUID, v.Entry.PodUID, func(d ledger.NodeDoc) (ledger.NodeDoc,
			error) {
			return ClaimVictim(d, v.Entry, plan)
		})
		if err != nil {
			return nil, err
		}
		for _, uid := range slices.Compact(slices.Sorted(slices.Values(v.Entry.Budgets))) {
			claims[uid] = append(claims[uid], ledger.BudgetClaim{
				PodUID: v.Entry.PodUID, PodRV: v.Entry.PodRV, Plan: plan, Regardless: v.Request,
			})
		}
	}
	var out, shared []ledger.BudgetDoc
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
		if is && !slices.ContainsFunc(shared, func(b ledger.BudgetDoc) bool { return b.UID == all.UID }) {
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
