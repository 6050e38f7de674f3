package ledger

import "fmt"

// MarkFencing is T6 (fence mark), the first of the fence's three parts: the reservation changes from Committed to
// Fencing and records the cause. The caller must then really change the pod (with a value it never had, so that its
// resourceVersion moves), look at the nodeName that this write returns, and finish: with Finish if it is bound,
// with ReleaseFenced if not.
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves a Committed
// reservation. A crash after it leaves a Fencing one, and any binder resumes at the change of the pod.
// *TransitionError if the pod has no Committed reservation with that token here.
func MarkFencing(d NodeDoc, podUID string, token Token, cause FenceCause) (NodeDoc, error) {
	i, err := d.step(podUID, token, Fencing)
	if err != nil {
		return NodeDoc{}, err
	}
	d = d.copy()
	d.Entries[i].State, d.Entries[i].Cause = Fencing, cause
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
func ReleaseFenced(d NodeDoc, podUID string, token Token, podRV uint64) (NodeDoc, error) {
	i := d.index(podUID)
	if i < 0 || d.Entries[i].Token != token || d.Entries[i].State != Fencing {
		return NodeDoc{}, d.refuse(i, podUID, token, 0)
	}
	if podRV <= d.Entries[i].PodRV {
		return NodeDoc{}, fmt.Errorf(
			"ledger: release of pod %s on node %s at resourceVersion %d: the fence did not move it beyond %d",
			podUID, d.NodeUID, podRV, d.Entries[i].PodRV)
	}
	d = d.copy()
	d.Entries = append(d.Entries[:i], d.Entries[i+1:]...)
	d.raise(KindPod, podRV)
	return d, nil
}

// MarkWanted asks the binders to give a reservation back; members other than binders may do no more than that. It
// returns false when the reservation is marked already.
//
// Carry it out with Replace: compares n/<uid>.ModRevision, puts the document. A crash before it leaves the
// reservation unmarked, after it a mark that binders find by themselves. *TransitionError if the pod has no
// reservation with that token here.
func MarkWanted(d NodeDoc, podUID string, token Token) (NodeDoc, bool, error) {
	i := d.index(podUID)
	if i < 0 || d.Entries[i].Token != token {
		return NodeDoc{}, false, d.refuse(i, podUID, token, 0)
	}
	if d.Entries[i].Wanted {
		return d, false, nil
	}
	d = d.copy()
	d.Entries[i].Wanted = true
	return d, true, nil
}

// step finds the pod's reservation and requires that it may change to state to.
func (d NodeDoc) step(podUID string, token Token, to State) (int, error) {
	i := d.index(podUID)
	if i < 0 || d.Entries[i].Token != token || !legal(d.Entries[i].State, to) {
		return 0, d.refuse(i, podUID, token, to)
	}
	return i, nil
}

func (d NodeDoc) refuse(i int, podUID string, token Token, to State) error {
	e := &TransitionError{NodeUID: d.NodeUID, PodUID: podUID, Token: token, To: to}
	if i >= 0 && d.Entries[i].Token == token {
		e.From = d.Entries[i].State
	}
	return e
}
