package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// oneShard returns a world with a shard that has read everything, in a cluster of n nodes in two zones.
func oneShard(t *testing.T, nodes int) *world {
	w := newWorld(t, 1, 1)
	w.addNamespace("d")
	for n := range nodes {
		w.addNodeIn(fmt.Sprintf("n%d", n), []string{"a", "b"}[n%2], 100)
	}
	return w
}

// transactions runs the shard until nothing changes, and returns what it has committed.
func (w *world) transactions() []ledger.Txn {
	var all []ledger.Txn
	w.ablate = func(txn ledger.Txn) ledger.Txn {
		all = append(all, txn)
		return txn
	}
	w.settle()
	w.offer()
	w.settle()
	return all
}

func written(txn ledger.Txn, prefix string) []string {
	var keys []string
	for _, p := range txn.Puts {
		if strings.HasPrefix(p.Key, prefix) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

func manyTerms(n, from int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		apartFrom(zoneKey, "x")(p)
		terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = nil
		for i := range n {
			other := appIn(fmt.Sprint("other-", from+i))
			*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: zoneKey, LabelSelector: other})
		}
	}
}

func TestTermIsRegisteredBeforeItsCarrierIsPlaced(t *testing.T) {
	w := oneShard(t, 4)
	w.addPod("p", kinds["apart"]...)
	w.addPod("plain")
	all := w.transactions()
	var register, place ledger.Txn
	for _, txn := range all {
		switch {
		case len(written(txn, registry.PrefixTerm)) > 0:
			register = txn
		case len(written(txn, registry.PrefixGuard)) > 0:
			place = txn
		}
	}
	if len(written(register, registry.PrefixTerm)) != 2 || len(written(register, ledger.PrefixNode)) != 0 {
		t.Errorf("registration %+v: want the term and the registry alone", register.Puts)
	}
	if len(written(place, registry.PrefixGuard)) != 1 {
		t.Fatalf("placement %+v: want one guard put", place.Puts)
	}
	guards := 0
	for _, c := range place.Compares {
		if strings.HasPrefix(c.Key, registry.PrefixGuard) {
			guards++
		}
		if c.Key == registry.KeyTermRegistry && c.Revision == 0 {
			t.Error("the placement compares a registry without the term")
		}
	}
	if guards != 2 {
		t.Errorf("%d guards compared, want the carriers' and the matchers'", guards)
	}
	if n := len(w.reservations()); n != 2 {
		t.Errorf("%d pods placed, want both", n)
	}
}

// A pod with more rules than it may carry, or than fit in one transaction together with those of others, is refused
// with an error, alone, and leaves no term behind.
func TestPodWithMoreRulesThanATransactionHolds(t *testing.T) {
	for name, c := range map[string]struct {
		own, others int
		want        []string
	}{
		"its own":             {80, 0, []string{"80 rules", "at most 60"}},
		"one too many":        {61, 0, []string{"61 rules", "at most 60"}},
		"those of others":     {0, 140, []string{"at most 128"}},
		"both taken together": {50, 30, []string{"136 operations", "at most 128", "carries 50"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := oneShard(t, 4)
			w.registerMany(c.others, aboutApp("monster"))
			w.addPod("monster", ofApp("monster"), manyTerms(c.own, 0))
			w.addPod("plain")
			w.transactions()
			w.heartbeats(1)
			if n := len(w.reservations()); n != 1 {
				t.Errorf("%d pods placed, want the plain one", n)
			}
			d := w.lastOf("monster")
			for _, want := range c.want {
				if d.Kind != events.DecisionFailed || !strings.Contains(d.Message, want) {
					t.Errorf("%s %q, want a failure that says %q", d.Kind, d.Message, want)
				}
			}
			if n := len(w.terms()); n != c.others {
				t.Errorf("%d terms are registered, want the %d from before", n, c.others)
			}
		})
	}
}

// A pod with the maximum number of rules is placed, together with terms of other pods if there is room.
func TestPodWithAsManyRulesAsItMayCarry(t *testing.T) {
	w := oneShard(t, 4)
	w.registerMany(1, aboutApp("many"))
	w.addPod("many", ofApp("many"), manyTerms(registry.MaxPodTerms, 0))
	w.transactions()
	registrations := 0
	for _, b := range w.history {
		if slices.ContainsFunc(b.Events, func(e ledger.Event) bool { return e.Key == registry.KeyTermRegistry }) {
			registrations++
		}
	}
	if n := len(w.reservations()); n != 1 || registrations != 2 {
		t.Errorf("%d pods placed after %d registrations, want one after its own and that of before", n, registrations)
	}
}

// A batch ends where its transaction is full; nothing is lost and nothing refused.
func TestBatchEndsWhereTheTransactionIsFull(t *testing.T) {
	w := oneShard(t, 4)
	for n := range 20 {
		w.addPod(fmt.Sprintf("p%d", n), manyTerms(6, 10*n))
	}
	placements, largest := 0, 0
	for _, txn := range w.transactions() {
		if len(written(txn, ledger.PrefixNode)) > 0 {
			placements++
			largest = max(largest, len(txn.Compares))
		}
	}
	if n := len(w.reservations()); n != 20 || placements < 2 {
		t.Errorf("%d of 20 pods placed by %d transactions, want all by several", n, placements)
	}
	if largest > ledger.MaxTxnOps || largest < ledger.MaxTxnOps/2 {
		t.Errorf("up to %d compares in a transaction, want it nearly full at %d", largest, ledger.MaxTxnOps)
	}
}

// registerMany fills the registry, as other shards would; with sets the fields of each term other than its number.
func (w *world) registerMany(n int, with ...func(t *registry.RegisteredTerm)) {
	v := w.ledgerView()
	r := v.Terms().Registry()
	const each = 60
	for known := 0; known < n; known += each {
		var terms []registry.RegisteredTerm
		for i := range min(each, n-known) {
			t := registry.RegisteredTerm{Term: registry.Term{
				Kind: registry.TermApart, TopologyKey: "rack", Parts: []registry.TermPart{{
					Namespaces: []string{fmt.Sprint("ns-", known+i)},
				}},
			}}
			for _, change := range with {
				change(&t)
			}
			terms = append(terms, t)
		}
		txn, err := registry.RegisterTerms(r, v.Terms(), terms...)
		if err != nil {
			w.t.Fatal(err)
		}
		r.Revision = w.commit(txn).Revision
	}
}

// aboutApp makes terms select an app of the namespace of pods, in zones.
func aboutApp(app string) func(*registry.RegisteredTerm) {
	return func(t *registry.RegisteredTerm) {
		t.TopologyKey = zoneKey
		t.Parts[0].Namespaces = append(t.Parts[0].Namespaces, "d")
		t.Parts[0].Selector = []registry.Requirement{{Key: "app", Operator: "in", Values: []string{app}}}
	}
}

// of makes terms a namespace's.
func of(namespace string) func(*registry.RegisteredTerm) {
	return func(t *registry.RegisteredTerm) { t.Namespace = namespace }
}

// ledgerView returns a view of the current ledger.
func (w *world) ledgerView() *replica.View {
	v := replica.NewView()
	kvs, revision, err := w.store.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := v.Reset(kvs, revision); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// Beyond MaxTerms no term is registered and its carriers get an error, until the least recently used terms have been
// dropped. A refused pod leaves nothing behind.
func TestFullRegistryIsReportedAndEmptied(t *testing.T) {
	w := oneShard(t, 4)
	w.registerMany(registry.MaxTerms)
	before := w.terms()
	w.addPod("p", kinds["apart"]...)
	w.transactions()
	s := w.shards[0]
	if len(s.decisions) != 1 || s.decisions[0].Kind != events.DecisionFailed ||
		!strings.Contains(s.decisions[0].Message, "at most 4096") {
		t.Fatalf("decisions %+v, want one failure by the limit of 4096", s.decisions)
	}
	if n := newTerms(before, w.terms()); n != 0 {
		t.Errorf("%d terms are registered for a pod that has been refused", n)
	}
	w.passUnusedTime()
	w.heartbeats(2) // retire, then drop
	w.transactions()
	if n := len(w.reservations()); n != 1 {
		t.Errorf("%d pods placed after terms were dropped, want 1", n)
	}
	after := w.terms()
	if n := newTerms(before, after); len(after) >= registry.MaxTerms || n != 1 {
		t.Errorf("%d terms, of which %d are new; want fewer than before, and that of the pod", len(after), n)
	}
}

// newTerms counts the terms that were not there before.
func newTerms(before, after []string) (n int) {
	for _, key := range after {
		if !slices.Contains(before, key) {
			n++
		}
	}
	return n
}

// Two nodes with one hostname form one domain, which is no single document.
func TestSharedHostnameIsGuarded(t *testing.T) {
	w := oneShard(t, 1)
	twin := w.nodeObjects["n0"].DeepCopy()
	w.addNodeIn("n2", "a", 100)
	w.nodeObjects["n2"].Labels[hostKey] = twin.Name
	w.rv++
	w.nodeObjects["n2"].ResourceVersion = fmt.Sprint(w.rv)
	w.publishNode(w.nodeObjects["n2"])
	for n := range 2 {
		w.addPod(fmt.Sprintf("p%d", n), ofApp("apart"), apartFrom(hostKey, "apart"))
	}
	all := w.transactions()
	guarded := slices.ContainsFunc(all, func(txn ledger.Txn) bool { return len(written(txn, registry.PrefixGuard)) > 0 })
	if n := len(w.reservations()); n != 1 || !guarded {
		t.Errorf("%d pods placed on two nodes of one hostname, guarded %v; want 1, guarded", n, guarded)
	}
}

// A pod that follows another waits until that one is bound, and pins it.
func TestFollowerPinsWhatItFollows(t *testing.T) {
	w := oneShard(t, 4)
	w.addPod("cache", kinds["cache"]...)
	w.transactions()
	w.addPod("follow", kinds["follow"]...)
	w.transactions()
	if n := len(w.reservations()); n != 1 {
		t.Fatalf("%d reservations: the follower did not wait for the bind", n)
	}
	home := w.reservations()["pod-cache"]
	w.bindOne()
	w.settle()
	if w.reservations()["pod-follow"] == "" {
		t.Fatal("the follower was not placed after the bind")
	}
	pins := 0
	for _, d := range w.docs() {
		i := slices.IndexFunc(d.Entries, func(e ledger.Entry) bool { return e.Role == ledger.RoleKeeper })
		if i < 0 {
			continue
		}
		pins++
		e := d.Entries[i]
		if d.NodeName != home || e.PodUID != "pod-cache" || e.Dependents[0].PodUID != "pod-follow" {
			t.Errorf("pin %+v on %s, want one of the cache on %s", e, d.NodeName, home)
		}
	}
	if pins != 1 {
		t.Errorf("%d pins, want 1", pins)
	}
}
