package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// terms returns the keys of the registered terms.
func (w *world) terms() []string {
	kvs, _, err := w.store.List(w.t.Context(), registry.PrefixTerm)
	if err != nil {
		w.t.Fatal(err)
	}
	var keys []string
	for _, kv := range kvs {
		if kv.Key != registry.KeyTermRegistry {
			keys = append(keys, kv.Key)
		}
	}
	return keys
}

// lastOf returns the last decision about a pod.
func (w *world) lastOf(name string) events.Decision {
	w.t.Helper()
	for _, s := range w.shards {
		for _, d := range slices.Backward(s.decisions) {
			if d.Pod.Name == name {
				return d
			}
		}
	}
	w.t.Fatalf("no decision about pod %s", name)
	return events.Decision{}
}

// A pod that no transaction can hold leaves no term behind, and the next pod finds the registry unchanged.
func TestPodThatNoTransactionHoldsLeavesNoTerm(t *testing.T) {
	w := oneShard(t, 4)
	w.addPod("monster", manyTerms(registry.MaxTerms, 0))
	for range 3 { // the queue offers it again after its back-off
		w.transactions()
	}
	if n := len(w.terms()); n != 0 {
		t.Errorf("%d terms are registered for a pod that cannot be placed, want none", n)
	}
	d := w.lastOf("monster")
	for _, want := range []string{"4096", "at most 60"} {
		if d.Kind != events.DecisionFailed || !strings.Contains(d.Message, want) {
			t.Errorf("%s, %q: want a failure that says %q", d.Kind, d.Message, want)
		}
	}
	w.addPod("honest", kinds["apart"]...)
	w.transactions()
	if w.reservations()["pod-honest"] == "" {
		t.Errorf("the next pod is not placed: %q", w.lastOf("honest").Message)
	}
}

func inNamespace(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }

// A namespace whose pods all have different rules gets half of the registry. Then its pods are refused, while pods
// of other namespaces are still placed.
func TestNamespaceCannotTakeTheRegistry(t *testing.T) {
	w := oneShard(t, 4)
	w.addNamespace("greedy")
	for n := range 50 {
		w.addPod(fmt.Sprint("greedy-", n), inNamespace("greedy"), manyTerms(50, 50*n))
	}
	w.transactions()
	if n := len(w.terms()); n > registry.MaxTerms/2 {
		t.Errorf("%d terms are registered for one namespace, want at most %d", n, registry.MaxTerms/2)
	}
	placed := len(w.reservations())
	if placed != 40 {
		t.Errorf("%d pods of the namespace placed, want the 40 that its share is enough for", placed)
	}
	refused := 0
	for _, d := range w.shards[0].decisions {
		if d.Kind != events.DecisionFailed {
			continue
		}
		refused++
		for _, want := range []string{"namespace greedy has 2000 terms", "needs 50 more", "as remain free of 4096"} {
			if !strings.Contains(d.Message, want) {
				t.Errorf("%q does not say %q", d.Message, want)
			}
		}
	}
	if refused != 10 {
		t.Errorf("%d pods refused, want the other 10", refused)
	}
	w.addPod("honest", kinds["apart"]...)
	w.transactions()
	if w.reservations()["pod-honest"] == "" {
		t.Errorf("the pod of another namespace is not placed: %q", w.lastOf("honest").Message)
	}
}

// Unused terms of a namespace are dropped when it has nearly used up its share, although the registry is half empty.
func TestNamespaceGetsRoomByItsUnusedTerms(t *testing.T) {
	w := oneShard(t, 4)
	w.registerMany(100, of("other"))
	w.registerMany(1980, of("d"), func(t *registry.RegisteredTerm) { t.TopologyKey = "row" })
	w.addPod("p", manyTerms(60, 0))
	w.transactions()
	if d := w.lastOf("p"); d.Kind != events.DecisionFailed || !strings.Contains(d.Message, "namespace d has 1980 terms") {
		t.Fatalf("%s %q, want that the namespace has its share", d.Kind, d.Message)
	}
	w.passUnusedTime()
	w.heartbeats(2) // retire, then drop
	w.transactions()
	if len(w.reservations()) != 1 {
		t.Errorf("not placed after terms were dropped: %q", w.lastOf("p").Message)
	}
	if n := w.ledgerView().Terms().CountOf("other"); n != 100 {
		t.Errorf("another namespace has %d of its 100 terms left", n)
	}
}

// heartbeats lets heartbeats pass.
func (w *world) heartbeats(n int) {
	for range n {
		for _, s := range w.shards {
			w.step(s, step.Input{Beat: true})
		}
		w.settle()
	}
}

// passUnusedTime lets enough time pass for terms to count as unused.
func (w *world) passUnusedTime() {
	w.heartbeats(1)
	w.now = w.now.Add(31 * time.Second)
}

// Terms of one pod are registered at once. When every pod brings one, they are registered a few times a second and not
// with every pod, and namespaces take turns.
func TestRegistrationsAreRare(t *testing.T) {
	w := oneShard(t, 4)
	w.addNamespace("second")
	for n := range 8 {
		w.addPod(fmt.Sprint("p", n), manyTerms(40, 40*n))
	}
	w.addPod("q", inNamespace("second"), apartFrom(zoneKey, "x"))
	var at []time.Time
	var last []string
	withOther := -1
	w.ablate = func(txn ledger.Txn) ledger.Txn {
		if n := len(written(txn, registry.PrefixTerm)); n > 0 {
			if n > 1+64 {
				t.Errorf("%d terms in one registration", n-1)
			}
			if slices.Equal(keysOf(txn), last) {
				return txn // the answer was lost, and it is sent again
			}
			at, last = append(at, w.now), keysOf(txn)
			if slices.ContainsFunc(txn.Puts, func(p ledger.Put) bool { return strings.Contains(string(p.Value), "second") }) {
				withOther = len(at)
			}
		}
		return txn
	}
	w.settle()
	w.offer()
	w.settle()
	if n := len(w.reservations()); n != 9 {
		t.Fatalf("%d pods placed, want all 9", n)
	}
	for i := range at[1:] {
		if pause := at[i+1].Sub(at[i]); pause < 250*time.Millisecond {
			t.Errorf("registration %d after %v, want a quarter of a second between them", i+1, pause)
		}
	}
	if len(at) < 5 || withOther != 1 {
		t.Errorf("%d registrations, the other namespace's with number %d: want at least 5, and it among the first",
			len(at), withOther)
	}
}

func keysOf(txn ledger.Txn) (keys []string) {
	for _, p := range txn.Puts {
		keys = append(keys, p.Key)
	}
	return keys
}

// A term is bounded in size: a pod whose rules are larger is refused, and none of its rules is registered.
func TestPodWithALargeRuleLeavesNoTerm(t *testing.T) {
	w := oneShard(t, 4)
	w.addPod("large", manyTerms(3, 0), func(p *corev1.Pod) {
		terms := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range 1000 {
			values := &terms[2].LabelSelector.MatchExpressions[0].Values
			*values = append(*values, fmt.Sprintf("%040d", i))
		}
	})
	w.transactions()
	if d := w.lastOf("large"); d.Kind != events.DecisionFailed || !strings.Contains(d.Message, "at most 32768") {
		t.Errorf("%s %q, want a failure by the limit of 32768 bytes", d.Kind, d.Message)
	}
	if n := len(w.terms()); n != 0 {
		t.Errorf("%d terms are registered, want none", n)
	}
}

// A pod whose reservation no document can hold leaves no term behind, nor does one whose reservation a document would
// hold without room for the marks to come.
func TestPodThatNoDocumentHoldsLeavesNoTerm(t *testing.T) {
	for _, ports := range []int{3300, 6000} {
		t.Run(fmt.Sprint(ports, " ports"), func(t *testing.T) { leavesNoTerm(t, ports) })
	}
}

func leavesNoTerm(t *testing.T, ports int) {
	w := oneShard(t, 4)
	w.addPod("large", manyTerms(3, 0), func(p *corev1.Pod) {
		for i := range ports {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
				HostPort: int32(i + 1), ContainerPort: int32(i + 1), Protocol: corev1.ProtocolTCP,
			})
		}
	})
	w.transactions()
	if d := w.lastOf("large"); d.Kind != events.DecisionFailed || !strings.Contains(d.Message, "at most 61440") {
		t.Errorf("%s %q, want a failure by the limit of 61440 bytes", d.Kind, d.Message)
	}
	if n := len(w.terms()); n != 0 {
		t.Errorf("%d terms are registered, want none", n)
	}
}

// A term that a reserved pod still needs does not keep other terms from being dropped.
func TestTermsAreDroppedOneByOne(t *testing.T) {
	w := oneShard(t, 4)
	w.addPod("carrier", kinds["apart"]...)
	w.transactions()
	kept := w.terms()
	if len(kept) != 1 || len(w.reservations()) != 1 {
		t.Fatalf("%d terms and %d reservations, want one of each", len(kept), len(w.reservations()))
	}
	w.registerMany(registry.MaxTerms - 1)
	v := w.ledgerView()
	txn, err := registry.RetireTerms(v.Terms().Registry(), w.term(v, kept[0]))
	if err != nil {
		t.Fatal(err)
	}
	w.commit(txn)
	w.settle()
	w.heartbeats(2)
	if n := len(w.terms()); n != registry.MaxTerms {
		t.Errorf("%d terms left, want all: none has gone unused for long", n)
	}
	w.passUnusedTime()
	w.heartbeats(8)
	n := len(w.terms())
	if n > registry.MaxTerms-4*64 || !slices.Contains(w.terms(), kept[0]) {
		t.Errorf("%d terms left after eight heartbeats, that of the reserved pod among them: %v; "+
			"want at least 256 of the others dropped, and not that one", n, slices.Contains(w.terms(), kept[0]))
	}
	for w.pods["pod-carrier"].Spec.NodeName == "" {
		w.bindOne()
	}
	w.settle()
	w.handOver()
	w.settle()
	w.heartbeats(2)
	if slices.Contains(w.terms(), kept[0]) {
		t.Error("the term is not dropped when its carrier is bound")
	}
}

func (w *world) term(v *replica.View, key string) registry.RegisteredTerm {
	w.t.Helper()
	t, ok := v.Terms().Get(registry.TermID(strings.TrimPrefix(key, registry.PrefixTerm)))
	if !ok {
		w.t.Fatalf("no term %s", key)
	}
	return t
}

// A preemptor that no transaction can hold leaves no term behind, and no pod is evicted.
func TestPreemptorThatNoTransactionHoldsLeavesNoTerm(t *testing.T) {
	w := oneShard(t, 1)
	w.nodes["n0"] = 1
	w.nodeObjects["n0"].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100m")
	w.rv++
	w.nodeObjects["n0"].ResourceVersion = fmt.Sprint(w.rv)
	w.publishNode(w.nodeObjects["n0"])
	w.addPod("low")
	w.transactions()
	w.bindOne()
	w.settle()
	high := int32(100)
	w.addPod("monster", manyTerms(80, 0), func(p *corev1.Pod) { p.Spec.Priority = &high })
	w.transactions()
	w.heartbeats(2)
	if d := w.lastOf("monster"); d.Kind != events.DecisionFailed || !strings.Contains(d.Message, "at most 60") {
		t.Errorf("%s %q, want a failure by the limit of 60", d.Kind, d.Message)
	}
	if n := len(w.terms()); n != 0 {
		t.Errorf("%d terms are registered, want none", n)
	}
	w.addPod("heir", kinds["apart"]...)
	w.pods["pod-heir"].Spec.Priority = &high
	w.publish(w.pods["pod-heir"])
	w.transactions()
	if w.reservations()["pod-heir"] == "" || len(w.terms()) != 1 {
		t.Errorf("a preemptor with one rule holds %q with %d terms, want a place with one",
			w.reservations()["pod-heir"], len(w.terms()))
	}
}
