package decide_test

import (
	"context"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A token identifies one reservation. Where the answer to a transaction was lost and its effects may have been
// removed since, the pod is given back to the queue, which assigns a new token. A plan is named after the token of
// its first hold, and continues when another pod displaces that.
func TestTokenIsNotUsedAgainAfterALostAnswer(t *testing.T) {
	for name, nomination := range map[string]bool{"a nomination": true, "a placement": false} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 1, 1)
			if nomination {
				st.running("v", "n0")
				st.deliverAll()
			}
			p := st.pod("p", important(10))
			first, lost := st.reservedUnanswered(p)
			st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
				d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), func(ledger.Entry) bool { return true })
				return d
			})
			st.step(st.s, step.Input{Results: []step.Result{{ID: first.ID, Err: context.DeadlineExceeded}}})
			st.runUntilQuiet()
			if _, again, ok := st.hold(p); ok {
				t.Errorf("reserved again under token %s, the first one was %s", again.Token, lost.Token)
			}
			out, err := checked(st.s.core.Step(step.Input{Beat: true}, st.now))
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{lost.Token.String()}; !slices.Equal(out.Request.Return, want) {
				t.Errorf("given back %v, want %v", out.Request.Return, want)
			}
		})
	}
}

// A nomination whose answer was lost may have been committed, so it has not failed if the store refuses it for its
// size afterwards.
func TestNominationThatMayHaveBeenCarriedOutDoesNotFail(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	st.running("v", "n0")
	st.deliverAll()
	p := st.pod("p", important(10))
	first, held := st.reservedUnanswered(p)
	st.step(st.s, step.Input{Results: []step.Result{{ID: first.ID, Err: context.DeadlineExceeded}}})
	if st.s.commit == nil {
		t.Fatal("the transaction is not sent again")
	}
	again := *st.s.commit
	out, err := checked(st.s.core.Step(step.Input{
		Beat: true, Results: []step.Result{{ID: again.ID, Refused: "it takes more than the store accepts"}},
	}, st.now))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range out.Attempts {
		t.Errorf("decided %+v", a)
	}
	if want := []string{held.Token.String()}; out.Request == nil || !slices.Equal(out.Request.Return, want) {
		t.Errorf("given back %+v, want %v", out.Request, want)
	}
}

// reservedUnanswered commits the transaction that the shard sends, without an answer, and returns it with the pod's
// reservation.
func (st *scenario) reservedUnanswered(pod string) (step.Commit, ledger.Entry) {
	st.t.Helper()
	sent := *st.s.commit
	st.commit(sent.Txn)
	_, e, ok := st.hold(pod)
	if !ok {
		st.t.Fatalf("the transaction made no reservation: %+v", sent)
	}
	return sent, e
}
