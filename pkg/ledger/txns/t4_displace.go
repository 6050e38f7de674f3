package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Displacement is T4 (displace): a pod of strictly higher priority takes the place that is held for another pod,
// together with the room that was cleared for it.
type Displacement struct {
	Authority
	// Target is the document with the hold, Docs the other documents with victims of its
	// plan (Plans.Docs) and those of the keepers, as read.
	Target ledger.NodeDoc
	Docs   []ledger.NodeDoc
	// PodUID and Token are those of the hold that is displaced.
	PodUID string
	Token  ledger.Token
	// Entry is the reservation that takes the place. If the hold had a plan, it becomes Held under that plan, or
	// under a plan of its own if the hold's plan was its alone (IsPrepared). Otherwise it is Held or Committed, as
	// given.
	Entry ledger.Entry
	// Keepers are the running pods that the new one relies on (required affinity).
	Keepers []NodeEntry
	// Exclusives are the volumes and pools of which the hold held something or the new reservation holds something:
	// see ReleaseHolder and Hold.
	Exclusives []ledger.ExclusiveDoc
	Guards     []registry.GuardUse
	// Record is the record of a recorded plan, as read.
	Record *ledger.PlanRecord
	Facts  PodFacts
}

// Plan returns the id of the plan that continues with the place of a hold.
func (x Displacement) Plan(hold ledger.Entry) string {
	if IsPrepared(hold.Plan) {
		return ledger.PlanID(x.Entry.Token, false)
	}
	return hold.Plan
}

// PriorityError reports that a hold cannot be displaced.
type PriorityError struct {
	NodeUID, PodUID string
	// Holder is the priority of the hold, Displacer that of the pod that wants its place.
	Holder, Displacer int32
}

func (e *PriorityError) Error() string {
	return fmt.Sprintf("ledger: the hold of pod %s on node %s has priority %d: one of priority %d cannot displace it",
		e.PodUID, e.NodeUID, e.Holder, e.Displacer)
}

const stepDisplace = "T4 displace"

// Displace builds T4. The plan continues for the pod that took the place: the claims on victims belong to the plan,
// whichever pod holds the place. So it does not matter whether evictions have been sent: the victims then leave for
// the new holder, and no pod is evicted twice. Only a recorded plan that is still forming is aborted, and its room
// is not cleared. The displaced pod's shard sees its entry vanish, and decides the pod again. Claims that the new
// holder does not need are dropped with AbortPlan's Only.
//
// Compares: own/<p>.CreateRevision of the displacing pod; t/reg.ModRevision; n/<uid>.ModRevision of the place, of
// the plan's other documents and of the keepers; x/; the guards; plan/<id>. Puts: the place's document and the
// keepers', x/, guards, an aborted record. A crash before it leaves the hold as it was, after it the hold of the
// other pod; the displaced pod is pending in every view.
//
// *PriorityError unless the entry's priority is strictly higher.
func Displace(x Displacement) (Change, error) {
	i := x.Target.Index(x.PodUID)
	if i < 0 || x.Target.Entries[i].Token != x.Token || x.Target.Entries[i].State != ledger.Held {
		return Change{}, refuse(x.Target, i, x.PodUID, x.Token, 0)
	}
	hold := x.Target.Entries[i]
	if err := x.covers(stepDisplace, x.Entry); err != nil {
		return Change{}, err
	}
	if err := upToDate(stepDisplace, []ledger.NodeDoc{x.Target}, x.Facts); err != nil {
		return Change{}, err
	}
	if x.Entry.Priority <= hold.Priority {
		return Change{}, &PriorityError{
			NodeUID: x.Target.NodeUID, PodUID: x.PodUID, Holder: hold.Priority, Displacer: x.Entry.Priority,
		}
	}
	c := Change{Authority: &x.Authority, Exclusives: x.Exclusives, Guards: x.Guards}
	next := x.Entry
	next.Role = ledger.RoleReservation
	if hold.Plan != "" {
		next.State, next.Plan = ledger.Held, x.Plan(hold)
	}
	if ledger.IsRecorded(hold.Plan) {
		switch {
		case x.Record == nil || x.Record.ID != hold.Plan:
			return Change{}, &RefusedError{Step: stepDisplace, NodeUID: x.Target.NodeUID, PodUID: x.PodUID,
				Reason: "the record of its plan is not given"}
		case x.Record.State == ledger.PlanForming:
			c.Plans = []ledger.PlanRecord{x.Record.To(ledger.PlanAborted)}
			next.Plan = ""
		default:
			c.UnchangedPlans = []ledger.PlanRecord{*x.Record}
		}
	}
	d := x.Target.Clone()
	d.Entries = slices.Delete(d.Entries, i, i+1)
	d, err := Place(d, next)
	if err != nil {
		return Change{}, err
	}
	if err := x.pin(&c, d, next); err != nil {
		return Change{}, err
	}
	c.Marker = Marker{NodeUID: d.NodeUID, Token: next.Token, State: next.State}
	return c, nil
}

// pin fills in the documents: the place's, those that pin a keeper, and the others, which are unchanged.
func (x Displacement) pin(c *Change, place ledger.NodeDoc, next ledger.Entry) error {
	set := docSet{step: stepDisplace, docs: append([]ledger.NodeDoc{place}, x.Docs...)}
	pins := map[string]bool{place.NodeUID: true}
	for _, k := range x.Keepers {
		err := set.change(k.NodeUID, k.Entry.PodUID, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			return Pin(d, k.Entry, ledger.Dependent{PodUID: next.PodUID, PodRV: next.PodRV})
		})
		if err != nil {
			return err
		}
		pins[k.NodeUID] = true
	}
	for _, d := range set.docs {
		if pins[d.NodeUID] {
			c.Docs = append(c.Docs, d)
			continue
		}
		c.Unchanged = append(c.Unchanged, d)
	}
	return nil
}
