package decide

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// fate is what happens to a request.
type fate int

const (
	// delivered means that it is carried out and the answer arrives.
	delivered fate = iota
	// answerLost means that it is carried out and the answer is lost.
	answerLost
	// requestLost means that it is never carried out, and there is no answer.
	requestLost
	// requestLate means that the sender gives up and the request is carried out at some later time.
	requestLate
)

// perform carries out effect i of a binder's lines.
func (w *world) perform(b *member, i int, f fate) error {
	e := b.lines[i]
	b.lines = slices.Delete(b.lines, i, i+1)
	w.logf("%s: %T %+v (fate %d)", b.id, e, e, f)
	if f == requestLate {
		w.late = append(w.late, e)
	}
	var in Input
	var err error
	if f == delivered || f == answerLost {
		if in, err = w.carryOut(b, e); err != nil {
			return err
		}
	}
	if f != delivered {
		in = unknown(e)
	}
	w.step(b, in)
	return w.check()
}

// performLate carries out a request whose sender has given up.
func (w *world) performLate(i int) error {
	e := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.logf("late: %T %+v", e, e)
	if _, err := w.carryOut(&member{early: map[string]ledger.NodeDoc{}}, e); err != nil {
		return err
	}
	return w.check()
}

func unknown(e Effect) Input {
	switch e := e.(type) {
	case Bind:
		return Answered{Op: e.Op, Result: Unknown, Problem: "timeout"}
	case ReadPod:
		return Answered{Op: e.Op, Result: Unknown, Problem: "timeout"}
	case FencePod:
		return Answered{Op: e.Op, Result: Unknown, Problem: "timeout"}
	case PatchCondition:
		return Answered{Op: e.Op, Result: Unknown, Problem: "timeout"}
	case Evict:
		return Answered{Op: e.Op, Result: Unknown, Problem: "timeout"}
	case ReadDoc:
		return DocRead{Op: e.Op, Problem: "timeout"}
	case Transact:
		return Transacted{Op: e.Op, Result: TxnUnknown, Problem: "timeout"}
	case Amend:
		return Amended{Op: e.Op, Result: TxnUnknown, Problem: "timeout"}
	}
	panic(fmt.Sprintf("no answer to %T", e))
}

func (w *world) carryOut(b *member, e Effect) (Input, error) {
	switch e := e.(type) {
	case Bind:
		return w.bind(b, e)
	case ReadDoc:
		return w.readDoc(b, e), nil
	case Transact:
		return w.transact(e)
	case Amend:
		return w.amend(e)
	case FencePod:
		return w.fence(e), nil
	case PatchCondition:
		p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{e.Condition} })
		return Answered{Op: e.Op, Result: Done, ResourceVersion: p.ResourceVersion}, nil
	}
	return nil, fmt.Errorf("%T is not part of this world", e)
}

func (w *world) bind(b *member, e Bind) (Input, error) {
	if w.off.noPrecondition {
		e.ResourceVersion = 0
	}
	result := w.api.bind(e)
	p := w.api.now().pods[e.Pod.UID]
	if result == Done && w.released[e.Token.String()] {
		return nil, fmt.Errorf("S2: %s was bound by token %s after its release", e.Pod.UID, e.Token)
	}
	if w.off.docBeforePod && result == Moved {
		// This is the wrong order: the document is read now, the pod some time later (when ReadDoc is performed).
		b.early[e.NodeUID] = w.ledger.current[ledger.KeyNode(e.NodeUID)]
	}
	return Answered{Op: e.Op, Result: result, Pod: p}, nil
}

func (w *world) readDoc(b *member, e ReadDoc) Input {
	if d, ok := b.early[e.NodeUID]; ok {
		delete(b.early, e.NodeUID)
		// The pod in its present form was read after d: hand it to the reservation that waits.
		if r, ok := b.core.running[e.Op].machine.(*reservation); ok {
			if p, ok := w.api.now().pods[r.key.pod]; ok && p.NodeName == "" {
				r.read = p
			}
		}
		return DocRead{Op: e.Op, Doc: &d}
	}
	d, ok := w.ledger.current[ledger.KeyNode(e.NodeUID)]
	if !ok {
		return DocRead{Op: e.Op}
	}
	return DocRead{Op: e.Op, Doc: &d}
}

func (w *world) transact(e Transact) (Input, error) {
	before := w.ledger.current[e.Txn.Puts[0].Key]
	res, err := w.commit(e.Txn, e.Why)
	switch {
	case err != nil:
		return nil, err
	case !res.Succeeded:
		return Transacted{Op: e.Op, Result: Lost, Current: &before}, nil
	}
	after := w.ledger.current[e.Txn.Puts[0].Key]
	for _, old := range before.Entries {
		if now, ok := after.Find(old.PodUID); !ok || now.Token != old.Token {
			w.released[old.Token.String()] = true
		}
	}
	return Transacted{Op: e.Op, Result: Applied, Revision: res.Revision}, nil
}

// amend is a hand-over; handing over a pod's entry releases nothing.
func (w *world) amend(e Amend) (Input, error) {
	res, err := w.commit(e.Txn, e.Why)
	switch {
	case err != nil:
		return nil, err
	case res.Succeeded:
		return Amended{Op: e.Op, Result: Applied, KVs: e.Txn.Committed(res)}, nil
	}
	lost := Amended{Op: e.Op, Result: Lost}
	for _, c := range e.Txn.Compares {
		d := w.ledger.current[c.Key]
		value, err := ledger.EncodeNodeDoc(d)
		if err != nil {
			return nil, err
		}
		lost.KVs = append(lost.KVs, ledger.KV{Key: c.Key, Value: value, ModRevision: d.Revision})
	}
	return lost, nil
}

// commit applies a transaction, or what an ablation makes of it, and checks each step.
func (w *world) commit(t ledger.Txn, why string) (ledger.TxnResult, error) {
	before := map[string]ledger.NodeDoc{}
	puts := make([]ledger.Put, 0, len(t.Puts))
	for _, put := range t.Puts {
		before[put.Key] = w.ledger.current[put.Key]
		changed, err := w.ablated(put, why, before[put.Key])
		if err != nil {
			return ledger.TxnResult{}, err
		}
		puts = append(puts, changed)
	}
	t.Puts = puts
	res, err := w.ledger.commit(t)
	if err != nil || !res.Succeeded || w.off != (ablation{}) {
		return res, err
	}
	for key, old := range before {
		if v := ledger.CheckSuccessor(old, w.ledger.current[key]); len(v) > 0 {
			return res, v[0]
		}
	}
	return res, nil
}

// ablated rewrites what a transaction puts, when a part of the protocol is left out.
func (w *world) ablated(put ledger.Put, why string, before ledger.NodeDoc) (ledger.Put, error) {
	d, err := ledger.DecodeNodeDoc(ledger.KV{Key: put.Key, Value: put.Value})
	switch {
	case err != nil:
		return put, err
	case w.off.noMark && why == "fence-mark":
		d.Entries = slices.Clone(before.Entries)
	case w.off.noHighWater:
		d.HW = maps.Clone(before.HW)
	default:
		return put, nil
	}
	put.Value, err = ledger.EncodeNodeDoc(d)
	return put, err
}

func (w *world) fence(e FencePod) Input {
	p, ok := w.api.now().pods[e.Pod.UID]
	if !ok {
		return Answered{Op: e.Op, Result: Gone}
	}
	if w.off.noRealChange {
		// This is what a patch that repeats the old value returns, except for the version, which moves so that the
		// release is not refused for lack of a change.
		unchanged := *p
		unchanged.ResourceVersion++
		return Answered{Op: e.Op, Result: Done, Pod: &unchanged}
	}
	return Answered{Op: e.Op, Result: Done, Pod: w.api.changePod(e.Pod.UID, annotate(AnnotationFence, e.Value))}
}
