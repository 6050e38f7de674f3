package txns

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// MarkFencing is T6 (fence mark), the first of the fence's three parts: the reservation changes from Committed to
// Fencing and records the cause. The caller must then really change the pod (with a value it never had, so that its
// resourceVersion moves), look at the nodeName that this write returns, and finish: with Finish if it is bound,
// with ReleaseFenced if not.
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves a Committed
// reservation. A crash after it leaves a Fencing one, and any binder resumes at the change of the pod.
// *TransitionError if the pod has no Committed reservation with that token here.
func MarkFencing(d ledger.NodeDoc, podUID string, token ledger.Token, cause ledger.FenceCause) (ledger.NodeDoc, error) {
	i, err := step(d, podUID, token, ledger.Fencing)
	if err != nil {
		return ledger.NodeDoc{}, err
	}
	d = d.Clone()
	d.Entries[i].State, d.Entries[i].Cause = ledger.Fencing, cause
	return d, nil
}

// ReleaseFenced is T7 (fence release): the Fencing reservation is dropped. podRV is the pod's resourceVersion as
// the fence's own write (or a later read) returned it, bound or not; the document's high-water rises to it. (A
// reservation with devices has its claims fenced too: cover their resourceVersions, of KindClaim, in the same
// document.)
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves a Fencing
// reservation: the next binder repeats the pod's change, which is harmless. After it the pod is free to be placed
// again. *TransitionError if the pod has no Fencing reservation with that token here.
func ReleaseFenced(d ledger.NodeDoc, podUID string, token ledger.Token, podRV uint64) (ledger.NodeDoc, error) {
	i := d.Index(podUID)
	if i < 0 || d.Entries[i].Token != token || d.Entries[i].State != ledger.Fencing {
		return ledger.NodeDoc{}, refuse(d, i, podUID, token, 0)
	}
	if podRV <= d.Entries[i].PodRV {
		return ledger.NodeDoc{}, fmt.Errorf(
			"ledger: release of pod %s on node %s at resourceVersion %d: the fence did not move it beyond %d",
			podUID, d.NodeUID, podRV, d.Entries[i].PodRV)
	}
	d = d.Clone()
	d.Entries = append(d.Entries[:i], d.Entries[i+1:]...)
	d.Raise(ledger.KindPod, podRV)
	return d, nil
}

// MarkWanted asks the binders to give a reservation back; members other than binders may do no more than that. It
// returns false when the reservation is marked already.
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves the
// reservation unmarked, after it a mark that binders find by themselves. *TransitionError if the pod has no
// reservation with that token here.
func MarkWanted(d ledger.NodeDoc, podUID string, token ledger.Token) (ledger.NodeDoc, bool, error) {
	i := d.Index(podUID)
	if i < 0 || d.Entries[i].Token != token {
		return ledger.NodeDoc{}, false, refuse(d, i, podUID, token, 0)
	}
	if d.Entries[i].Wanted {
		return d, false, nil
	}
	d = d.Clone()
	d.Entries[i].Wanted = true
	return d, true, nil
}

// step finds the pod's reservation and requires that it may change to state to.
func step(d ledger.NodeDoc, podUID string, token ledger.Token, to ledger.State) (int, error) {
	i := d.Index(podUID)
	if i < 0 || d.Entries[i].Token != token || !d.Entries[i].State.MayBecome(to) {
		return 0, refuse(d, i, podUID, token, to)
	}
	return i, nil
}

// refuse returns the *TransitionError of entry i, or of no entry if i is below 0.
func refuse(d ledger.NodeDoc, i int, podUID string, token ledger.Token, to ledger.State) error {
	e := &TransitionError{NodeUID: d.NodeUID, PodUID: podUID, Token: token, To: to}
	if i >= 0 && d.Entries[i].Token == token {
		e.From = d.Entries[i].State
	}
	return e
}

// TransitionError reports a step that a reservation's state does not allow. From is 0 if the node holds no
// reservation of that pod with that token.
type TransitionError struct {
	NodeUID, PodUID string
	Token           ledger.Token
	From, To        ledger.State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("ledger: reservation of pod %s (token %s) on node %s cannot go from %s to %s",
		e.PodUID, e.Token, e.NodeUID, e.From, e.To)
}
