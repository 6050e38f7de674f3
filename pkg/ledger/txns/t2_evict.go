package txns

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// EvictFor is how long after a request to the ledger whose answer showed a mark the eviction for it may be on its
// way to the API server. A binder that is cut off from the ledger evicts at most for that long for a mark that
// other binders may have taken over or deleted. A generation of the ledger stays closed for longer.
const EvictFor = 25 * time.Second

// EvictPlan makes victims of a plan evictable. It is the last step before evictions are sent, after T2 (or T12) has
// committed, while the plan is still wanted.
type EvictPlan struct {
	Plan string
	// Owner is the document with the plan's hold or placeholder, as read.
	Owner ledger.NodeDoc
	// Docs are the documents of the victims, as read; if it includes Owner's document, the one in Docs is used.
	Docs []ledger.NodeDoc
	// Victims are the pods to evict, each in one of Docs.
	Victims []string
	// Record is the record of a recorded plan, as read.
	Record *ledger.PlanRecord
	// Sender is the member that will send the evictions. Only the sender can know that all of them have failed,
	// until another member takes over the sending: TakeEviction.
	Sender string
}

// MarkEvicting marks claims Evicting. Before the mark no eviction may be sent. From then on an abort leaves the
// claims and their budget claims alone, because an eviction may arrive at any later time. It refuses
// (*RefusedError) victims of a plan whose hold is gone or whose record is not Ready, and pods that the plan does
// not claim.
//
// Compares: n/<uid>.ModRevision of the victims' documents and the hold's; plan/<id>. Puts: the victims' documents.
// A crash before it leaves claims that can be dropped. After it, any binder that finds the mark sends the eviction
// again, after a look at the pod.
func MarkEvicting(e EvictPlan) (Change, error) {
	const step = "T2 evict mark"
	if i := slices.IndexFunc(e.Docs, func(d ledger.NodeDoc) bool { return d.NodeUID == e.Owner.NodeUID }); i >= 0 {
		e.Owner = e.Docs[i]
	}
	if _, ok := e.Owner.Owner(e.Plan); !ok {
		return Change{}, &RefusedError{Step: step, NodeUID: e.Owner.NodeUID, Reason: "no hold of plan " + e.Plan}
	}
	c := Change{}
	if ledger.IsRecorded(e.Plan) {
		if e.Record == nil || e.Record.ID != e.Plan || e.Record.State != ledger.PlanReady {
			return Change{}, &RefusedError{Step: step, NodeUID: e.Owner.NodeUID, Reason: "the plan's record is not Ready"}
		}
		c.UnchangedPlans = []ledger.PlanRecord{*e.Record}
	}
	wanted := map[string]bool{}
	for _, uid := range e.Victims {
		wanted[uid] = true
	}
	marked := 0
	for _, d := range e.Docs {
		next, n := e.mark(d, wanted)
		if n > 0 {
			c.Docs = append(c.Docs, next)
			marked += n
		}
	}
	if marked != len(wanted) {
		return Change{}, &RefusedError{Step: step, Reason: fmt.Sprintf(
			"%d pods are to be marked, %d of them are unmarked victims of plan %s", len(wanted), marked, e.Plan)}
	}
	if !hasDoc(c.Docs, e.Owner.NodeUID) {
		c.Unchanged = []ledger.NodeDoc{e.Owner}
	}
	return c, nil
}

// mark returns a document in which the claims on some pods are marked, and the number of those claims.
func (e EvictPlan) mark(d ledger.NodeDoc, wanted map[string]bool) (next ledger.NodeDoc, marked int) {
	next = d.Clone()
	for i, v := range d.Entries {
		if v.Role == ledger.RoleVictim && v.Plan == e.Plan && wanted[v.PodUID] && v.State != ledger.Evicting {
			next.Entries[i].State, next.Entries[i].Shard = ledger.Evicting, e.Sender
			marked++
		}
	}
	return next, marked
}

// TakeEviction makes another member the one that sends the evictions of a victim that is Evicting. An eviction that
// the previous sender has sent may still arrive, so the new sender must treat one as unanswered from the start. It
// returns a *RefusedError unless the plan is evicting the pod.
//
// Carry it out with a Change: compares and puts n/<uid>. A crash before it changes nothing; a crash after it is
// like one after MarkEvicting.
func TakeEviction(d ledger.NodeDoc, podUID, plan, sender string) (ledger.NodeDoc, error) {
	i, err := evicting(d, "T2 evict take", podUID, plan)
	if err != nil {
		return ledger.NodeDoc{}, err
	}
	d = d.Clone()
	d.Entries[i].Shard = sender
	return d, nil
}

// evicting returns the index of a plan's claim on a pod, which must be Evicting.
func evicting(d ledger.NodeDoc, step, podUID, plan string) (int, error) {
	i := d.VictimIndex(podUID)
	if i < 0 || d.Entries[i].Plan != plan || d.Entries[i].State != ledger.Evicting {
		return 0, &RefusedError{Step: step, NodeUID: d.NodeUID, PodUID: podUID,
			Reason: "plan " + plan + " is not evicting it"}
	}
	return i, nil
}

// FailEviction is for a victim all of whose evictions that were ever sent have certainly failed (T10): its claim
// goes back from Evicting. Only the claim's sender can know that. The plan keeps the claim, to try again or to drop
// it. Nothing of the budget is released, but its document records what the refused call may have taken: see
// CoverBudget.
//
// Carry it out with a Change: compares and puts n/<uid>. A crash before it leaves the mark, and the next binder
// looks at the pod and tries again.
func FailEviction(d ledger.NodeDoc, podUID, plan string) (ledger.NodeDoc, error) {
	i, err := evicting(d, "T10 eviction failed", podUID, plan)
	if err != nil {
		return ledger.NodeDoc{}, err
	}
	d = d.Clone()
	d.Entries[i].State, d.Entries[i].Shard = 0, ""
	return d, nil
}

// DeclineEviction is FailEviction for a victim whose eviction could only be requested, and which no controller has made
// leave. The claim is marked Declined, so that no binder requests it again for this plan. The mark stays with the
// claim.
//
// Carry it out like FailEviction. A crash before it leaves the mark Evicting, and the next binder takes the request as
// made; after it the claim is like one that was never marked, except that nothing is requested for it.
func DeclineEviction(d ledger.NodeDoc, podUID, plan string) (ledger.NodeDoc, error) {
	d, err := FailEviction(d, podUID, plan)
	if err != nil {
		return ledger.NodeDoc{}, err
	}
	d.Entries[d.VictimIndex(podUID)].Declined = true
	return d, nil
}

func hasDoc(docs []ledger.NodeDoc, nodeUID string) bool {
	s := docSet{docs: docs}
	return s.at(nodeUID) >= 0
}
