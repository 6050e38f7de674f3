package txns

import (
	"bytes"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Promotion is T3 (promote): a hold becomes a reservation that can be bound.
type Promotion struct {
	Authority
	// Target is the document with the hold, Docs all other documents with victims of its plan
	// (Plans.Docs), as read.
	Target ledger.NodeDoc
	Docs   []ledger.NodeDoc
	PodUID string
	Token  ledger.Token
	// PodRV is the pod's resourceVersion with which the test of Fits was made: the bind's precondition. Berth's own
	// writes may have moved it since the hold was made. Wish is Entry.PlacementHash of that version.
	PodRV, Wish uint64
	// Fits: according to Facts, the pod passes every rule on the node as it is now, with victims counted as long as
	// they are there. A hold may be minutes old, so rules about pods on other nodes are evaluated again, and Guards
	// holds the guard revisions on which that result rests.
	Fits   bool
	Guards []registry.GuardUse
	// Volumes and Devices are the choices for the pod's claims, picked again with that test. Exclusives are the documents
	// of the volumes and pools that it then holds, and of those that it held before.
	Volumes    []ledger.VolumePick
	Devices    []ledger.DevicePick
	Exclusives []ledger.ExclusiveDoc
	// Delegated: a plugin binds the pod, see Entry.
	Delegated bool
	// Record is the record of a recorded plan, as read.
	Record *ledger.PlanRecord
	Facts  ClaimFacts
}

const stepPromote = "T3 promote"

// Promote builds T3: the hold becomes Committed, and the claims on its victims are dropped. Claims of a recorded
// plan on other nodes, and of any plan as far as they do not fit, are left to hand-over, since a victim that is
// gone stays gone. Promote refuses (*RefusedError) while a victim is not gone, the pod does not fit, the facts are
// older than a document's high-water, or the node's name stands for another node. It returns a *TransitionError if
// the node has no such hold, and a *DocTooLargeError if the document has no room for what the pod's claims get now.
//
// Compares: own/<p>.CreateRevision; t/reg.ModRevision; n/<uid>.ModRevision of the place and of the victims' former
// nodes; x/; the guards; plan/<id>. Puts: the documents, with high-waters raised to the facts that show the victims
// gone; x/; guards; the record. A crash before it leaves a hold on free room, which the partition's next owner
// promotes; after it any binder binds.
func Promote(p Promotion) (Change, error) {
	i, err := step(p.Target, p.PodUID, p.Token, ledger.Committed)
	if err != nil {
		return Change{}, err
	}
	hold := p.Target.Entries[i]
	if err := p.covers(stepPromote, hold); err != nil {
		return Change{}, err
	}
	if p.Target.SupersededBy != "" {
		return Change{}, p.refuse("node name " + p.Target.NodeName + " stands for another node, " + p.Target.SupersededBy)
	}
	if !p.Fits {
		return Change{}, p.refuse("the pod does not fit on the node now")
	}
	if p.PodRV < hold.PodRV {
		return Change{}, p.refuse("the pod was looked at in an older version than the hold was made for")
	}
	docs := append([]ledger.NodeDoc{p.Target}, p.Docs...)
	if err := upToDate(stepPromote, docs, p.Facts); err != nil {
		return Change{}, err
	}
	c := Change{
		Authority: &p.Authority, Exclusives: p.Exclusives, Guards: p.Guards,
		Marker: Marker{NodeUID: p.Target.NodeUID, Token: p.Token, State: ledger.Committed},
	}
	if ledger.IsRecorded(hold.Plan) {
		if p.Record == nil || p.Record.ID != hold.Plan || p.Record.State != ledger.PlanReady {
			return Change{}, p.refuse("the record of its plan is not Ready")
		}
		c.Plans = []ledger.PlanRecord{p.Record.To(ledger.PlanDone)}
	}
	room := ledger.MaxTxnBytes/2 - weigh(c.Exclusives) - weigh(c.Guards)
	for n, d := range docs {
		without, changed, err := dropVictims(d, hold.Plan, p.Facts)
		if err != nil {
			return Change{}, err
		}
		if n == 0 {
			without = without.Clone()
			at := without.Index(p.PodUID)
			e := &without.Entries[at]
			e.State = ledger.Committed
			e.PodRV = p.PodRV
			e.PlacementHash = p.Wish
			e.Plan = ""
			e.Volumes, e.Devices = volumesAgain(e.Volumes, p.Volumes), devicesAgain(e.Devices, p.Devices)
			e.Delegated = p.Delegated
		}
		if room -= without.Weight(); n == 0 || changed && !ledger.IsRecorded(hold.Plan) && room >= 0 {
			c.Docs = append(c.Docs, without)
		}
	}
	// The pod's claims may get more now than when the hold was made.
	if err := c.Docs[0].CheckRoom(); err != nil {
		return Change{}, err
	}
	return c, nil
}

// volumesAgain returns what a pod's claims get now. A claim that gets the same as before keeps the fields of a
// later version.
func volumesAgain(before, now []ledger.VolumePick) []ledger.VolumePick {
	now = slices.Clone(now)
	for i := range now {
		for _, b := range before {
			if b.Claim == now[i].Claim && b.ClaimUID == now[i].ClaimUID && b.Volume == now[i].Volume {
				now[i].Later = b.Later
			}
		}
	}
	return now
}

// devicesAgain is volumesAgain for claims to devices.
func devicesAgain(before, now []ledger.DevicePick) []ledger.DevicePick {
	now = slices.Clone(now)
	for i := range now {
		for _, b := range before {
			if b.Claim == now[i].Claim && bytes.Equal(b.Allocation, now[i].Allocation) {
				now[i].Later = b.Later
			}
		}
	}
	return now
}

func (p Promotion) refuse(reason string) error {
	return &RefusedError{Step: stepPromote, NodeUID: p.Target.NodeUID, PodUID: p.PodUID, Reason: reason}
}

// dropVictims returns a document without the claims of a plan, all of which must be on pods that are gone.
func dropVictims(d ledger.NodeDoc, plan string, facts ClaimFacts) (ledger.NodeDoc, bool, error) {
	var kept []ledger.Entry
	var hw uint64
	for _, e := range d.Entries {
		if e.Role != ledger.RoleVictim || plan == "" || e.Plan != plan {
			kept = append(kept, e)
			continue
		}
		fate, rv := facts.VictimFate(e.PodUID, e.PodRV)
		if fate != Left {
			return ledger.NodeDoc{}, false, &RefusedError{Step: stepPromote, NodeUID: d.NodeUID, PodUID: e.PodUID,
				Reason: "the victim is " + fate.String()}
		}
		hw = max(hw, rv)
	}
	if len(kept) == len(d.Entries) {
		return d, false, nil
	}
	d = d.Clone()
	d.Entries = kept
	d.Raise(ledger.KindPod, hw)
	return d, true, nil
}

// weigh returns the sum of the weights.
func weigh[T interface{ Weight() int }](list []T) (sum int) {
	for _, x := range list {
		sum += x.Weight()
	}
	return sum
}
