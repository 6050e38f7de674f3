package decide

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// delivery is what happens to a request.
type delivery int

const (
	// delivered means that it is carried out and the answer arrives.
	delivered delivery = iota
	// answerLost means that it is carried out and the answer is lost.
	answerLost
	// requestLost means that it is never carried out, and there is no answer.
	requestLost
	// requestLate means that the sender gives up and the request is carried out at some later time.
	requestLate
)

// perform carries out effect i of a binder's lines.
func (w *world) perform(b *member, i int, f delivery) error {
	e := b.lines[i]
	b.lines = slices.Delete(b.lines, i, i+1)
	w.logf("%s: %T %+v (fate %d)", b.id, e, e, f)
	if f == requestLate {
		w.late = append(w.late, e)
	}
	var in effect.Input
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
	if _, err := w.carryOut(&member{early: map[string]earlyDoc{}}, e); err != nil {
		return err
	}
	return w.check()
}

func unknown(e effect.Effect) effect.Input {
	switch e := e.(type) {
	case effect.Bind:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.ReadPod:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.FencePod:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.PatchCondition:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.Announce:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.Evict:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.ReadDoc:
		return effect.DocRead{Op: e.Op, Problem: "timeout"}
	case effect.Transact:
		return effect.Transacted{Op: e.Op, Result: effect.TxnUnknown, Problem: "timeout"}
	case effect.Amend:
		return effect.Amended{Op: e.Op, Result: effect.TxnUnknown, Problem: "timeout"}
	}
	panic(fmt.Sprintf("no answer to %T", e))
}

func (w *world) carryOut(b *member, e effect.Effect) (effect.Input, error) {
	switch e := e.(type) {
	case effect.Bind:
		return w.bind(b, e)
	case effect.ReadDoc:
		return w.readDoc(b, e), nil
	case effect.Transact:
		return w.transact(e)
	case effect.Amend:
		return w.amend(e)
	case effect.FencePod:
		return w.fence(e), nil
	case effect.Announce:
		return w.announce(e), nil
	case effect.PatchCondition:
		if now := w.api.now().pods[e.Pod.UID]; e.ResourceVersion > 0 && now.ResourceVersion != e.ResourceVersion {
			return effect.Answered{Op: e.Op, Result: effect.Conflict, Pod: now}, nil
		}
		p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{e.Condition}
			if e.NominatedNodeName != "" || e.ClearNomination {
				p.Status.NominatedNodeName = e.NominatedNodeName
			}
		})
		return effect.Answered{Op: e.Op, Result: effect.Done, ResourceVersion: p.ResourceVersion}, nil
	}
	return nil, fmt.Errorf("%T is not part of this world", e)
}

func (w *world) bind(b *member, e effect.Bind) (effect.Input, error) {
	if w.off.noPrecondition {
		e.ResourceVersion = 0
	}
	result := w.api.bind(e)
	p := w.api.now().pods[e.Pod.UID]
	if result == effect.Done && w.released[e.Token.String()] {
		return nil, fmt.Errorf("S2: %s was bound by token %s after its release", e.Pod.UID, e.Token)
	}
	if w.off.docBeforePod && result == effect.Conflict {
		// This is the wrong order: the document is read now, the pod some time later (when ReadDoc is performed).
		read := *p
		b.early[e.NodeUID] = earlyDoc{w.ledger.current[ledger.KeyNode(e.NodeUID)], &read}
		p = &read
	}
	return effect.Answered{Op: e.Op, Result: result, Pod: p}, nil
}

// earlyDoc is a document that was read before the pod. pod is what the bind was answered with: it changes to what is
// read later.
type earlyDoc struct {
	doc ledger.NodeDoc
	pod *state.Pod
}

func (w *world) readDoc(b *member, e effect.ReadDoc) effect.Input {
	if early, ok := b.early[e.NodeUID]; ok {
		delete(b.early, e.NodeUID)
		// The pod in its present form was read after the document.
		if p, ok := w.api.now().pods[early.pod.UID]; ok && p.NodeName == "" {
			*early.pod = *p
		}
		return effect.DocRead{Op: e.Op, Doc: &early.doc}
	}
	d, ok := w.ledger.current[ledger.KeyNode(e.NodeUID)]
	if !ok {
		return effect.DocRead{Op: e.Op}
	}
	return effect.DocRead{Op: e.Op, Doc: &d}
}

func (w *world) transact(e effect.Transact) (effect.Input, error) {
	before := w.ledger.current[e.Txn.Puts[0].Key]
	res, err := w.commit(e.Txn, e.Why)
	switch {
	case err != nil:
		return nil, err
	case !res.Succeeded:
		return effect.Transacted{Op: e.Op, Result: effect.Lost, Current: &before}, nil
	}
	after := w.ledger.current[e.Txn.Puts[0].Key]
	for _, old := range before.Entries {
		if now, ok := after.Find(old.PodUID); !ok || now.Token != old.Token {
			w.released[old.Token.String()] = true
		}
	}
	return effect.Transacted{Op: e.Op, Result: effect.Applied, Revision: res.Revision}, nil
}

// amend is a hand-over; handing over a pod's entry releases nothing.
func (w *world) amend(e effect.Amend) (effect.Input, error) {
	res, err := w.commit(e.Txn, e.Why)
	switch {
	case err != nil:
		return nil, err
	case res.Succeeded:
		return effect.Amended{Op: e.Op, Result: effect.Applied, KVs: e.Txn.Committed(res)}, nil
	}
	lost := effect.Amended{Op: e.Op, Result: effect.Lost}
	for _, c := range e.Txn.Compares {
		d := w.ledger.current[c.Key]
		value, err := codec.EncodeNodeDoc(d)
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
		if v := invariant.CheckSuccessor(old, w.ledger.current[key]); len(v) > 0 {
			return res, v[0]
		}
	}
	return res, nil
}

// ablated rewrites what a transaction puts, when a part of the protocol is left out.
func (w *world) ablated(put ledger.Put, why string, before ledger.NodeDoc) (ledger.Put, error) {
	d, err := codec.DecodeNodeDoc(ledger.KV{Key: put.Key, Value: put.Value})
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
	put.Value, err = codec.EncodeNodeDoc(d)
	return put, err
}

func (w *world) fence(e effect.FencePod) effect.Input {
	p, ok := w.api.now().pods[e.Pod.UID]
	if !ok {
		return effect.Answered{Op: e.Op, Result: effect.Gone}
	}
	if w.off.noRealChange {
		// This is what a patch that repeats the old value returns, except for the version, which moves so that the
		// release is not refused for lack of a change.
		unchanged := *p
		unchanged.ResourceVersion++
		return effect.Answered{Op: e.Op, Result: effect.Done, Pod: &unchanged}
	}
	changed := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) {
		annotate(effect.AnnotationFence, e.Value)(p)
		p.Status.NominatedNodeName = ""
	})
	return effect.Answered{Op: e.Op, Result: effect.Done, Pod: changed}
}

// announce is a patch of the status with the bind's preconditions.
func (w *world) announce(e effect.Announce) effect.Input {
	p, ok := w.api.now().pods[e.Pod.UID]
	answer := effect.Answered{Op: e.Op, Result: effect.Conflict, Pod: p}
	switch {
	case !ok:
		answer.Result = effect.Gone
	case p.NodeName == e.NodeName:
		answer.Result = effect.AlreadyHere
	case p.NodeName != "":
		answer.Result = effect.Elsewhere
	case p.ResourceVersion == e.ResourceVersion:
		p = w.api.changePod(e.Pod.UID, func(p *corev1.Pod) { p.Status.NominatedNodeName = e.NodeName })
		answer = effect.Answered{Op: e.Op, Result: effect.Done, ResourceVersion: p.ResourceVersion}
	}
	return answer
}
