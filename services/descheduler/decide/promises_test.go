package decide

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// known is a cluster for which the facts of every kind have arrived.
func known(t statetest.Fataler, all ...state.APIObject) *state.Snapshot {
	t.Helper()
	var h statetest.History
	for _, o := range all {
		switch o.(type) {
		case *corev1.Node:
			h.Upsert(events.KindNode, o)
		case *policyv1.PodDisruptionBudget:
			h.Upsert(events.KindDisruptionBudget, o)
		default:
			h.Upsert(events.KindPod, o)
		}
	}
	for _, k := range []events.Kind{events.KindPod, events.KindNode, events.KindDisruptionBudget} {
		h.Bookmark(k)
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatalf("%v", err)
	}
	return store.Snapshot()
}

// book is a private ledger, to whose store changes are committed.
type book struct {
	view     *replica.View
	revision int64
}

func newBook(t statetest.Fataler) *book {
	b := &book{view: replica.NewView(), revision: 1}
	if err := b.view.Reset(nil, 1); err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// carryOut commits a change like a store without competing writers, and informs the given Promises.
func (b *book) carryOut(t statetest.Fataler, c txns.Change, p ...*Promises) {
	txn, err := c.Txn()
	if err != nil {
		t.Fatalf("%v", err)
	}
	b.revision++
	r := ledger.TxnResult{Succeeded: true, Revision: b.revision}
	if _, err := b.view.LearnOwn(txn, r); err != nil {
		t.Fatalf("%v", err)
	}
	for _, one := range p {
		if err := one.ApplyCommitted(txn, r); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// keepAll keeps the places of a cycle, and returns the reasons why some could not be kept.
func (b *book) keepAll(t statetest.Fataler, p *Promises, evict []Eviction) (refused []descheduling.Refusal) {
	for i := range evict {
		if evict[i].Keep == nil {
			continue
		}
		c, because, err := p.BuildMove(&evict[i])
		switch {
		case err != nil:
			t.Fatalf("%v", err)
		case because != "":
			refused = append(refused, because)
		default:
			b.carryOut(t, c, p)
		}
	}
	return refused
}

// placesOn counts the placeholders of a ledger, by node.
func (b *book) placesOn() map[string]int {
	out := map[string]int{}
	for d := range b.view.Docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove {
				out[d.NodeName]++
			}
		}
	}
	return out
}

const landing = "nodeFit: true"

// A cycle keeps a place for each pod that it moves. The next cycle, of another leader that knows the ledger but not
// the decisions, moves none of these pods and gives none of their room away.
func TestPlacesAreSeenByTheNextCycle(t *testing.T) {
	var all []state.APIObject
	all = append(all, tainted("a"), statetest.Node("b", "cpu", "3", "memory", "16Gi", "pods", "20"))
	for i := range 5 {
		all = append(all, running(fmt.Sprint("p", i), "a"))
	}
	cluster := known(t, all...)
	b := newBook(t)
	cycle := func() (Outcome, []descheduling.Refusal) {
		in := input(t, taints(t, "", landing), cluster)
		in.Promises = NewPromises(cluster, b.view.Clone())
		out := Cycle(in)
		return out, b.keepAll(t, in.Promises, out.Evict)
	}
	first, refused := cycle()
	if len(first.Evict) != 3 || len(refused) > 0 || b.placesOn()["b"] != 3 {
		t.Fatalf("%s refused %v, places %v: want three moved to b", summary(first), refused, b.placesOn())
	}
	second, _ := cycle()
	if len(second.Evict) != 0 {
		t.Fatalf("the next cycle moves more:\n%s", summary(second))
	}
}

// Promises that other members have made since the plan are taken into account.
func TestPlaceThatIsTakenMeanwhile(t *testing.T) {
	cluster := known(t, tainted("a"), statetest.Node("b", "cpu", "1", "memory", "16Gi", "pods", "20"), running("p", "a"))
	b := newBook(t)
	in := input(t, taints(t, "", landing), cluster)
	in.Promises = NewPromises(cluster, b.view.Clone())
	out := Cycle(in)
	if len(out.Evict) != 1 || out.Evict[0].Keep == nil {
		t.Fatalf("%s want p moved", summary(out))
	}
	rival := ledger.NodeDoc{NodeUID: "uid-b", NodeName: "b", Entries: []ledger.Entry{{
		PodUID: "rival", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1000, Token: 7,
		Requests: map[string]int64{"cpu": 1000, "pods": 1},
	}}}
	value, err := codec.EncodeNodeDoc(rival)
	if err != nil {
		t.Fatal(err)
	}
	lost := ledger.TxnResult{
		Revision: 9, Current: []ledger.KV{{Key: ledger.KeyNode("uid-b"), Value: value, ModRevision: 9}},
	}
	if err := in.Promises.ApplyConflict(lost); err != nil {
		t.Fatal(err)
	}
	if _, because, err := in.Promises.BuildMove(&out.Evict[0]); err != nil || because != PlaceTaken {
		t.Errorf("refused because of %q (error %v), want %q", because, err, PlaceTaken)
	}
}

// Places without a request, or whose eviction was refused, are given up; others stay.
func TestLeftovers(t *testing.T) {
	cluster := known(t, tainted("a"), roomy("b"), running("asked", "a"), running("lost", "a"), running("refused", "a"))
	b := newBook(t)
	in := input(t, taints(t, "", landing), cluster)
	in.Promises = NewPromises(cluster, b.view.Clone())
	out := Cycle(in)
	if refused := b.keepAll(t, in.Promises, out.Evict); len(out.Evict) != 3 || len(refused) > 0 {
		t.Fatalf("%s refused %v", summary(out), refused)
	}
	h := plan.NewHistory()
	for _, e := range out.Evict {
		if e.Decision.Pod.Name != "lost" {
			h.Observe(e.Decision, now)
		}
		if e.Decision.Pod.Name == "refused" {
			e.Decision.Kind = events.DecisionEvictRefused
			h.Observe(e.Decision, now)
		}
	}
	p := NewPromises(cluster, b.view.Clone())
	for range 2 { // the second time there is nothing to do
		for _, c := range p.Leftovers(h, now) {
			b.carryOut(t, c, p)
		}
	}
	var left []string
	for d := range b.view.Docs() {
		for _, e := range d.Entries {
			left = append(left, fmt.Sprint(e.Role, " ", e.Name))
		}
	}
	slices.Sort(left)
	if want := []string{"Move asked", "Victim asked"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	if later := p.Leftovers(h, now.Add(plan.InFlight)); len(later) != 1 {
		t.Errorf("%d leftovers when the ask is long ago, want it", len(later))
	}
}

// TestPlacesRespectReservations: whatever a cycle plans can be kept in the ledger in its present state, with all
// earlier promises: no document violates an invariant, no node is promised more than it has room for, no budget more
// than it allows, and no pod is claimed twice.
func TestPlacesRespectReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := randomCluster(t)
		if rapid.Bool().Draw(t, "budget") {
			all = append(all, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: types.UID("uid-budget")},
				Spec: policyv1.PodDisruptionBudgetSpec{
					Selector: &metav1.LabelSelector{}, MinAvailable: &intstr.IntOrString{},
				},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: rapid.Int32Range(0, 3).Draw(t, "allowed")},
			})
		}
		cluster := known(t, all...)
		b := newBook(t)
		for range 3 {
			in := input(t, taints(t, "", landing), cluster)
			in.Promises = NewPromises(cluster, b.view.Clone())
			out := Cycle(in)
			for _, because := range b.keepAll(t, in.Promises, out.Evict) {
				if because != plan.NoBudget { // the ledger counts ready pods, here none, and not only the status
					t.Fatalf("planned, and then refused because %s:\n%s", because, summary(out))
				}
			}
			for d := range b.view.Docs() {
				if v := invariant.CheckDoc(d); len(v) > 0 {
					t.Fatal(v)
				}
			}
			if v := invariant.CheckClaims(b.view.Docs()); len(v) > 0 {
				t.Fatal(v)
			}
			for _, n := range NewPromises(cluster, b.view.Clone()).nodes() {
				used, kept := n.Requested.MilliCPU, b.placesOn()[n.Node.Name]
				if kept > 0 && used > n.Node.Allocatable.MilliCPU {
					t.Fatalf("node %s is promised %d milli-CPU of %d", n.Node.Name, used, n.Node.Allocatable.MilliCPU)
				}
			}
		}
	})
}

// A pod that has ended is only deleted, and no place is kept: its controller has created another pod.
func TestNoPlaceForAPodThatHasEnded(t *testing.T) {
	ended := running("a", "n1")
	ended.Status.Phase = corev1.PodFailed
	p, err := policy.Parse("test", []byte(`{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy,
berth: {maxPerOwner: 100%}, profiles: [{name: p, pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 1}},
{name: DefaultEvictor, args: {}}], plugins: {deschedule: {enabled: [PodLifeTime]}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	in := input(t, p, known(t, tainted("n1"), roomy("n2"), ended, running("b", "n1")))
	in.Promises = NewPromises(in.Cluster, newBook(t).view)
	kept := map[string]bool{}
	for _, e := range Cycle(in).Evict {
		kept[e.Decision.Pod.Name] = e.Keep != nil
	}
	if want := map[string]bool{"a": false, "b": true}; !maps.Equal(kept, want) {
		t.Errorf("places are kept: %v, want %v", kept, want)
	}
}
