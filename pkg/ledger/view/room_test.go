package view_test

import (
	"errors"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// claimant is a member that evicts pods within budgets, with its own view of one ledger.
type claimant struct {
	*world
	store *mem.Store
}

func newClaimant(t *testing.T, store *mem.Store) *claimant {
	c := &claimant{newWorld(t), store}
	for _, name := range []string{"pod-a", "pod-b", "pod-c"} {
		c.readyPod(name, "d", true, map[string]string{"a": "b"})
	}
	c.facts(1)
	return c
}

// facts applies a number of changes of other budgets, which advance the progress of budgets.
func (c *claimant) facts(n int) {
	for range n {
		c.rv++
		c.fact(events.Fact{Kind: events.KindDisruptionBudget, Op: events.OpDelete, Namespace: "d", Name: "other"})
	}
}

// evict claims a pod from a budget that allows one disruption.
func (c *claimant) evict(pod, node, budget string) (ledger.TxnResult, error) {
	c.t.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pdb", UID: types.UID(budget)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(map[string]string{"a": "b"})},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DesiredHealthy: 2},
	}
	victim := claim(pod, "")
	victim.Namespace, victim.Budgets = "d", []string{budget}
	change, err := txns.ClaimEviction(txns.SoleEviction{
		Token: 1, Sender: "binder", Victim: txns.NodeEntry{NodeUID: uidOf(node), Entry: victim},
		Doc: c.ledger.Open(uidOf(node), node, 1), Budgets: []txns.BudgetRoom{c.view.Budgets().Room(pdb)},
		Facts: c.view.TxnFacts(),
	})
	if err != nil {
		return ledger.TxnResult{}, err
	}
	txn, err := change.Txn()
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.store.Commit(c.t.(*testing.T).Context(), txn)
	if err != nil {
		c.t.Fatal(err)
	}
	if !res.Succeeded {
		changes, err := c.ledger.Learn(res.Current)
		if err != nil {
			c.t.Fatal(err)
		}
		c.view.ApplyLedger(changes)
	}
	return res, nil
}

// watch brings the view of the ledger up to date.
func (c *claimant) watch() {
	kvs, revision, err := c.store.List(c.t.(*testing.T).Context(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	var events []ledger.Event
	for _, kv := range kvs {
		events = append(events, ledger.Event{KV: kv})
	}
	changes, err := c.ledger.Apply(ledger.EventBatch{Revision: revision, Events: events})
	if err != nil {
		c.t.Fatal(err)
	}
	c.view.ApplyLedger(changes)
}

// Two members claim pods of one namespace from different budgets, as when one is deleted and created again, or a
// second one covers the same pods. The later claim loses, whichever member has read further. Its member claims
// again only when it has read the change it lost to, and has read as much about budgets as the earlier claim rests
// on.
func TestClaimsFromTwoBudgetsMeet(t *testing.T) {
	for _, first := range []string{"old", "new"} {
		t.Run(first+" budget first", func(t *testing.T) {
			store := mem.New()
			one, other := newClaimant(t, store), newClaimant(t, store)
			second := "new"
			if first == "new" {
				second = "old"
				one.facts(3)
			}
			if res, err := one.evict("pod-a", "node-a", first); err != nil || !res.Succeeded {
				t.Fatalf("the first claim: %+v, %v", res, err)
			}
			if res, err := other.evict("pod-b", "node-b", second); err != nil || res.Succeeded {
				t.Fatalf("the second claim, of a member that knows nothing of the first: %+v, %v", res, err)
			}
			var refused *txns.RefusedError
			if _, err := other.evict("pod-b", "node-b", second); !errors.As(err, &refused) {
				t.Errorf("before the watch has got there: %v", err)
			}
			other.watch()
			if _, err := other.evict("pod-b", "node-b", second); first == "new" && !errors.As(err, &refused) {
				t.Errorf("by facts that are older than those of the first claim: %v", err)
			}
			other.facts(3)
			var full *txns.BudgetError
			if _, err := other.evict("pod-b", "node-b", second); !errors.As(err, &full) {
				t.Errorf("with all that there is to know: %v, want no room", err)
			}
		})
	}
}

// A claim rests on the pods as they are known, not on a status that was written before some of them left.
func TestRoomOfAStatusThatIsOld(t *testing.T) {
	c := newClaimant(t, mem.New())
	c.dropPod("pod-c")
	var full *txns.BudgetError
	if _, err := c.evict("pod-a", "node-a", "pdb"); !errors.As(err, &full) {
		t.Errorf("one of two pods that have to stay was claimed: %v", err)
	}
}
