package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// The numbers are those of the protocol's list of edge cases most likely to bite.

func TestEdge01HandOverBeforeALaggingShardSeesTheBind(t *testing.T) {
	r := newRig(t, 2)
	r.reserve()
	lagging := r.shards[1]
	lagging.facts = len(r.api.history) - 1 // before the bind
	run[effect.Bind](r, delivered)
	r.see()
	r.wait(2 * time.Second)
	if why := run[effect.Amend](r, delivered).Why; why != "hand-over" {
		t.Fatalf("%s, want the hand-over", why)
	}
	lagging.docs = len(r.ledger.history) // sees neither the bind nor the entry
	if r.place(1, 0) {
		t.Fatal("a shard whose facts end before the bind used the node")
	}
}

func TestEdge02DocumentIsEmptiedNeverDeleted(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	run[effect.Bind](r, delivered)
	r.see()
	r.wait(2 * time.Second)
	txn := run[effect.Amend](r, delivered).Txn
	if len(txn.Deletes) != 0 || len(r.doc().Entries) != 0 || r.doc().Revision == 0 {
		t.Fatalf("deletes %v, document %+v", txn.Deletes, r.doc())
	}
}

func TestEdge03LateBindAfterRelease(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	run[effect.Bind](r, requestLate)
	r.wait(r.limits.BindDeadline + time.Second)
	r.expectFence("not bound within")
	if err := r.performLate(0); err != nil {
		t.Fatal(err)
	}
	if p := r.api.now().pods["p0-uid"]; p.NodeName != "" {
		t.Fatal("the bind of a released entry succeeded")
	}
}

func TestEdge04RefreshReadsThePodThenTheDocument(t *testing.T) {
	r := newRig(t, 1)
	e := r.reserve()
	r.api.changePod("p0-uid", annotate("a", "b"))
	run[effect.Bind](r, delivered) // refused; its answer carries the pod as read afterwards
	next[effect.ReadDoc](r)
	// Another binder marks, changes and releases before the document is read.
	marked, err := txns.MarkFencing(r.doc(), e.PodUID, e.Token, ledger.FenceByPod)
	if err != nil || !r.replace(marked) {
		t.Fatal("not marked", err)
	}
	changed := r.api.changePod("p0-uid", annotate(effect.AnnotationFence, "x"))
	released, err := txns.ReleaseFenced(r.doc(), e.PodUID, e.Token, changed.ResourceVersion)
	if err != nil || !r.replace(released) {
		t.Fatal("not released", err)
	}
	run[effect.ReadDoc](r, delivered)
	r.quiet("the entry is gone")
	r.wait(time.Minute)
	r.quiet("the entry is gone for good")
}

func TestEdge05FenceValuesAreFresh(t *testing.T) {
	seen := map[string]bool{}
	for range 2 { // two binders
		r := newRig(t, 1)
		r.starts = len(seen)
		r.boot(r.b)
		r.see()
		r.reserve()
		run[effect.Bind](r, requestLost)
		r.wait(r.limits.BindDeadline + time.Second)
		run[effect.Transact](r, delivered)
		for range 3 { // unknown, so repeated
			value := run[effect.FencePod](r, answerLost).Value
			if seen[value] || !strings.HasPrefix(value, ledger.Token(1).String()+"-") {
				t.Fatalf("fence value %q is not fresh", value)
			}
			seen[value] = true
			r.wait(time.Second)
		}
	}
}

func TestEdge06OwnConditionPatchNeverRacesABind(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	bind := next[effect.Bind](r)
	r.receive(unplaceable("p0", 9, "0/1 nodes are available: 1 Insufficient cpu."))
	if d := r.wantDecisions(events.DecisionCondition)[0]; d.PodResourceVersion != bind.ResourceVersion {
		t.Fatalf("told resourceVersion %d, want the bind's %d", d.PodResourceVersion, bind.ResourceVersion)
	}
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
}

func TestEdge10NamesakeIsNotBound(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	r.api.deletePod("p0-uid")
	r.api.write(func(v *apiVersion) { // the same name, another pod
		v.pods["namesake"] = state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p0", UID: "namesake", ResourceVersion: "99",
		}})
	})
	run[effect.Bind](r, delivered)
	r.wantDecisions()
	r.quiet("gone")
	if p := r.api.now().pods["namesake"]; p.NodeName != "" {
		t.Fatal("the namesake was bound")
	}
}

func TestEdge20UnknownTransactionIsResubmittedUnchanged(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "no"}
	})
	for _, step := range []string{"fence-mark", "fence-release"} {
		first := run[effect.Transact](r, answerLost)
		r.wait(200 * time.Millisecond)
		second := run[effect.Transact](r, delivered)
		if diff := cmp.Diff(first.Txn, second.Txn); diff != "" || first.Why != step {
			t.Fatalf("%s resubmitted with changes (-first +second):\n%s", first.Why, diff)
		}
		if step == "fence-mark" {
			run[effect.FencePod](r, delivered)
		}
	}
	if n := len(r.doc().Entries); n != 0 {
		t.Fatalf("%d entries left", n)
	}
}

// Documents that are idle at the same time are handed over together; if one of them has lost in the meantime, the
// others are handed over again without it.
func TestIdleDocumentsAreHandedOverTogether(t *testing.T) {
	r := newLine(t, 3)
	r.reserveAll()
	for range r.shards {
		r.bindNext()
	}
	r.see()
	r.wait(2 * r.limits.Idle)
	lost := next[effect.Amend](r)
	if lost.Why != "hand-over" || len(lost.Txn.Puts) != 3 {
		t.Fatalf("%s of %d documents, want a hand-over of 3", lost.Why, len(lost.Txn.Puts))
	}
	s := r.shards[0]
	r.api.addPod("p3")
	r.shards = append(r.shards, s)
	r.api.deletePod("p1-uid")
	s.facts, s.docs = len(r.api.history)-1, len(r.ledger.history)
	if !r.place(3, 1) {
		t.Fatal("p3 could not take p1's place")
	}
	run[effect.Amend](r, delivered)
	if n := len(r.ledger.current[ledger.KeyNode("n0-uid")].Entries); n != 1 {
		t.Fatalf("%d entries of n0: a part of the transaction went through", n)
	}
	r.b.lines = nil // p3's bind is not under test here
	r.wait(basis.RoundEvery)
	if again := run[effect.Amend](r, delivered); len(again.Txn.Puts) != 2 {
		t.Fatalf("then %d documents, want the 2 that have not moved", len(again.Txn.Puts))
	}
	for _, uid := range []string{"n0-uid", "n2-uid"} {
		if n := len(r.ledger.current[ledger.KeyNode(uid)].Entries); n != 0 {
			t.Fatalf("%d entries of %s left", n, uid)
		}
	}
}
