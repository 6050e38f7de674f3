package txns

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// NameClaim is T14 (name claim): it writes the UID of a claim that has been created for a Committed reservation
// into the entry as ClaimUID, and the resourceVersion at which it was created as ClaimRV. Nothing is written to the
// claim before that: if a binder was suspended while its reservation was fenced, the transaction fails, and the
// claim that the binder created has no devices.
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves a claim
// without devices, which the binder that binds the pod finds again by its name; after it the claim is like one that
// the pod names. *TransitionError if the pod has no Committed reservation with that token here.
func NameClaim(d ledger.NodeDoc, podUID string, token ledger.Token, made ledger.DevicePick) (ledger.NodeDoc, error) {
	i := d.Index(podUID)
	if i < 0 || d.Entries[i].Token != token || d.Entries[i].State != ledger.Committed {
		return ledger.NodeDoc{}, refuse(d, i, podUID, token, ledger.Committed)
	}
	if made.ClaimUID == "" || made.ClaimRV == 0 {
		return ledger.NodeDoc{}, fmt.Errorf(
			"ledger: claim %s of pod %s on node %s has UID %q and resourceVersion %d, want both",
			made.Claim, podUID, d.NodeUID, made.ClaimUID, made.ClaimRV)
	}
	d = d.Clone()
	e := &d.Entries[i]
	e.Devices = append([]ledger.DevicePick(nil), e.Devices...)
	for j := range e.Devices {
		if p := &e.Devices[j]; p.Claim == made.Claim && p.Unmade() {
			p.ClaimUID, p.ClaimRV = made.ClaimUID, made.ClaimRV
			return d, nil
		}
	}
	return ledger.NodeDoc{}, fmt.Errorf("ledger: pod %s on node %s waits for no claim %s to be made",
		podUID, d.NodeUID, made.Claim)
}
