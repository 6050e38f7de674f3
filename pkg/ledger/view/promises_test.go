package view_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// promise stores a node's document with exactly these entries, and a plan's record if given.
func (w *world) promise(node string, record *ledger.PlanRecord, entries ...ledger.Entry) {
	w.t.Helper()
	w.revision++
	doc := w.docs[node]
	doc.NodeUID, doc.NodeName, doc.Entries = uidOf(node), node, entries
	w.docs[node] = doc
	put := w.stored(doc)
	if record != nil {
		raw, err := codec.EncodePlan(*record)
		if err != nil {
			w.t.Fatal(err)
		}
		put = append(put, ledger.Event{KV: ledger.KV{Key: ledger.KeyPlan(record.ID), Value: raw, ModRevision: w.revision}})
	}
	changes, err := w.ledger.Apply(ledger.EventBatch{Revision: w.revision, Events: put})
	if err != nil {
		w.t.Fatal(err)
	}
	w.view.ApplyLedger(changes)
}

// asked returns which pods count on a node, by one question asked for a plan, and how many hundreds of milli-CPU
// they count for.
func (w *world) asked(q view.Question, node, plan string, without ...string) (names []string, sum int) {
	w.t.Helper()
	n, ok := w.view.Ask(q, uidOf(node), plan, without...)
	if !ok {
		w.t.Fatalf("node %s is not there", node)
	}
	names = []string{}
	for p := range n.Pods() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names, int(n.Requested.MilliCPU / 100)
}

// wantSum compares an answer.
func (w *world) wantSum(what string, got []string, sum, wantSum int, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) || sum != wantSum {
		w.t.Errorf("%s: %q count for %d, want %q for %d", what, got, sum, want, wantSum)
	}
}

func (w *world) wantAsked(what string, got []string, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: %q count, want %q", what, got, want)
	}
}

func hold(pod string, priority int32, plan string, rv uint64) ledger.Entry {
	e := entry(pod, rv)
	e.State, e.Priority, e.Plan = ledger.Held, priority, plan
	return e
}

func claim(pod, plan string) ledger.Entry {
	return ledger.Entry{PodUID: uidOf(pod), Name: pod, Role: ledger.RoleVictim, Plan: plan, PodRV: 1}
}

// place returns a placeholder; it has no name under which it counts.
func place(token ledger.Token) ledger.Entry {
	return ledger.Entry{
		PodUID: uidOf("pod-z"), Role: ledger.RoleMove, Token: token, Plan: ledger.PlanID(token, false),
		Replacement: ledger.Replacement{Owner: "o", Template: "t"}, Requests: map[string]int64{"cpu": 100},
	}
}

func TestNowAndFuture(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.pod("pod-a", "node-a", corev1.PodRunning)
	w.pod("pod-b", "node-a", corev1.PodRunning)
	w.pod("pod-c", "", corev1.PodPending)
	if w.view.Promised(uidOf("node-a")) {
		t.Error("something is promised on a fresh node")
	}
	info, _ := w.view.Ask(view.Future, uidOf("node-a"), "")
	if info != w.view.Nodes()[0] {
		t.Error("a node without promises was copied")
	}
	w.promise("node-a", nil, claim("pod-a", "p"))
	future := func(what, plan string, want int, names ...string) {
		t.Helper()
		got, sum := w.asked(view.Future, "node-a", plan)
		w.wantSum(what, got, sum, want, names...)
	}
	future("a claim without a hold", "", 2, "pod-a", "pod-b")
	w.promise("node-a", nil, claim("pod-a", "p"), hold("pod-c", 5, "p", w.rv), place(9))
	if !w.view.Promised(uidOf("node-a")) {
		t.Error("nothing is promised on a node with a plan")
	}
	names, sum := w.asked(view.Now, "node-a", "")
	w.wantSum("now", names, sum, 2, "pod-a", "pod-b")
	future("future", "", 3, "", "pod-a", "pod-b", "pod-c")
	future("future of the plan", "p", 2, "", "pod-b")
	names, sum = w.asked(view.Future, "node-a", "", uidOf("pod-c"))
	w.wantSum("future without the hold", names, sum, 3, "", "pod-a", "pod-b")
	w.wantAsked("nodes", w.have()["node-a"], "", "pod-a", "pod-b", "pod-c")
	if usable, behind := w.settle(); len(usable) != 1 || behind != 0 {
		t.Errorf("usable %v, behind %d: a placeholder is not an unknown pod", usable, behind)
	}
	low, high := w.view.Displaceable(uidOf("node-a"), 5), w.view.Displaceable(uidOf("node-a"), 6)
	if len(low) != 0 || len(high) != 1 {
		t.Errorf("displaceable by priority 5: %+v, by 6: %+v", low, high)
	}
	w.view.Reset(w.store)
	future("future after a new start", "", 3, "", "pod-a", "pod-b", "pod-c")
	w.promise("node-a", nil, claim("pod-a", "p"), hold("pod-c", 5, "p", w.rv))
	w.wantAsked("the placeholder is gone", w.have()["node-a"], "pod-a", "pod-b", "pod-c")

	large := ledger.PlanID(7, true)
	record := ledger.PlanRecord{ID: large, State: ledger.PlanForming, NodeUID: uidOf("node-a"), Victims: 1}
	w.promise("node-a", &record, claim("pod-a", large), hold("pod-c", 5, large, w.rv))
	future("a forming plan", "", 3, "pod-a", "pod-b", "pod-c")
	record.State = ledger.PlanReady
	w.promise("node-a", &record, claim("pod-a", large), hold("pod-c", 5, large, w.rv))
	future("a ready plan", "", 2, "pod-a", "pod-b", "pod-c")
}

func TestVictimFate(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.pod("pod-a", "node-a", corev1.PodRunning)
	w.pod("pod-b", "node-a", corev1.PodRunning)
	w.promise("node-a", nil, claim("pod-a", "p"))
	fate := func(pod string, since uint64) (txns.Fate, uint64) {
		return w.view.TxnFacts().VictimFate(uidOf(pod), since)
	}
	if f, _ := fate("pod-a", w.rv); f != txns.Staying {
		t.Errorf("a running pod is %s", f)
	}
	if f, _ := fate("pod-z", w.rv+1); f != txns.Staying {
		t.Errorf("a pod that is not known yet is %s", f)
	}
	w.dropPod("pod-a")
	w.dropPod("pod-b")
	gone := w.rv
	w.pod("pod-c", "node-a", corev1.PodSucceeded)
	ended := w.rv
	w.pod("pod-d", "", corev1.PodPending)
	for pod, want := range map[string]uint64{"pod-a": gone - 1, "pod-b": gone, "pod-c": ended, "pod-y": w.rv} {
		if f, rv := fate(pod, 1); f != txns.Left || rv != want {
			t.Errorf("%s is %s at %d, want gone at %d", pod, f, rv, want)
		}
	}
	first := w.rv
	w.pod("pod-d", "node-a", corev1.PodRunning)
	if _, rv := fate("pod-y", 1); rv != first {
		t.Errorf("asked again, pod-y is gone at %d, want %d as before", rv, first)
	}
}

func TestRoom(t *testing.T) {
	w := newWorld(t)
	if w.view.TxnFacts().BudgetProgress() != 0 {
		t.Error("progress of budgets before any fact")
	}
	w.rv++
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pdb", UID: "u", Generation: 2},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 3},
	}
	w.fact(events.Fact{Kind: events.KindDisruptionBudget, Op: events.OpDelete, Namespace: "d", Name: "other"})
	if got := w.view.TxnFacts().BudgetProgress(); got != w.rv {
		t.Errorf("progress of budgets %d, want %d", got, w.rv)
	}
	want := txns.BudgetRoom{
		Doc: ledger.BudgetDoc{UID: "u", Namespace: "d", Name: "pdb"}, Shared: ledger.BudgetDoc{UID: "ns/d", Namespace: "d"},
	}
	if diff := cmp.Diff(want, w.view.Budgets().Estimate(pdb)); diff != "" {
		t.Errorf("a status from before the spec (-want +got):\n%s", diff)
	}
	pdb.Status.ObservedGeneration = 2
	if got := w.view.Budgets().Room(pdb).Allowed; got != 3 {
		t.Errorf("%d allowed, want 3", got)
	}
}

// Room counts the pods, Estimate as soon as anything was claimed from the budget.
func TestRoomCounts(t *testing.T) {
	w := newWorld(t)
	w.rv++
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pdb", UID: "u"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(map[string]string{"a": "b"})},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DesiredHealthy: 2},
	}
	w.readyPod("pod-a", "d", true, map[string]string{"a": "b"})
	w.readyPod("pod-b", "d", true, map[string]string{"a": "b"})
	w.readyPod("pod-c", "d", false, map[string]string{"a": "b"})
	w.readyPod("pod-d", "d", true, nil)
	w.readyPod("pod-e", "elsewhere", true, map[string]string{"a": "b"})
	if r := w.view.Budgets().Estimate(pdb); r.Count != nil {
		t.Errorf("a budget that nothing was claimed from is counted: %+v", r.Count)
	}
	raw, err := codec.EncodeBudget(ledger.BudgetDoc{UID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	w.revision++
	changes, err := w.ledger.Apply(ledger.EventBatch{Revision: w.revision, Events: []ledger.Event{
		{KV: ledger.KV{Key: ledger.KeyBudget("u"), Value: raw, ModRevision: w.revision}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.view.ApplyLedger(changes)
	want := &txns.BudgetCount{Healthy: []string{uidOf("pod-a"), uidOf("pod-b")}, Desired: 2}
	for _, room := range []txns.BudgetRoom{w.view.Budgets().Room(pdb), w.view.Budgets().Estimate(pdb)} {
		if diff := cmp.Diff(want, room.Count); diff != "" {
			t.Errorf("the count (-want +got):\n%s", diff)
		}
	}
	if free, known := w.view.Budgets().Room(pdb).Free(w.view.TxnFacts()); free != 0 && known {
		t.Errorf("%d free by the status, with two pods that have to stay", free)
	}
}

// A claim from one budget counts against another budget that covers the same pod, as when a budget is deleted and
// created again (kubectl replace --force), or its selector is changed: the eviction takes from that one.
func TestRoomWithClaimsFromAnotherBudget(t *testing.T) {
	w := newWorld(t)
	covered := map[string]string{"a": "b"}
	for _, name := range []string{"pod-a", "pod-b", "pod-c"} {
		w.readyPod(name, "d", true, covered)
	}
	w.readyPod("pod-d", "d", true, nil)
	w.rv++
	w.fact(events.Fact{Kind: events.KindDisruptionBudget, Op: events.OpDelete, Namespace: "d", Name: "pdb"})
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pdb", UID: "new"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(covered)},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DesiredHealthy: 2},
	}
	check := func(when string, free, spare int) {
		t.Helper()
		if got, known := w.view.Budgets().Room(pdb).Free(w.view.TxnFacts()); !known || got != free {
			t.Errorf("%s: %d free (%t), want %d", when, got, known, free)
		}
		if got := w.view.Budgets().Spare(pdb); got != spare {
			t.Errorf("%s: %d to spare, want %d", when, got, spare)
		}
		got, known := view.BudgetsOf(w.view.Snapshot(), w.ledger).Room(pdb).Free(w.view.TxnFacts())
		if !known || got != free {
			t.Errorf("%s: %d free without a view (%t), want %d", when, got, known, free)
		}
	}
	check("before", 1, 1)
	victim := func(name, namespace string, budgets ...string) ledger.Entry {
		e := claim(name, "p")
		e.State, e.Namespace, e.Budgets = ledger.Evicting, namespace, budgets
		return e
	}
	w.promise("node-a", nil, victim("pod-d", "d", "third"), victim("elsewhere", "elsewhere"))
	check("one that it does not cover is claimed", 1, 1)
	w.promise("node-a", nil, victim("pod-a", "d", "old"))
	check("one is claimed from the budget before", 0, 0)
	pdb.Status.DisruptionsAllowed = 2
	check("two may go by the status, of which one has to stay", 0, 0)
	pdb.Status.DesiredHealthy = 1
	check("two may go, one is claimed", 1, 1)
	w.promise("node-a", nil)
	check("the claim is over", 2, 2)
}

// readyPod delivers a fact about a running pod.
func (w *world) readyPod(name, namespace string, ready bool, podLabels map[string]string) {
	w.rv++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uidOf(name)), Labels: podLabels, ResourceVersion: fmt.Sprint(w.rv),
		},
		Spec:   corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	raw, err := p.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, Namespace: namespace, Name: name, Object: raw})
}

// Both questions, computed independently from scratch, after any promises.
func TestAskIsTheRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.node("node-a")
		w.node("node-b")
		bound, pending := []string{"pod-a", "pod-b"}, []string{"pod-c", "pod-d"}
		for _, name := range bound {
			w.pod(name, "node-a", corev1.PodRunning)
		}
		for _, name := range pending {
			w.pod(name, "", corev1.PodPending)
		}
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			var entries []ledger.Entry
			isNow, isFuture, sum := slices.Clone(bound), slices.Clone(bound), len(bound)
			for i, name := range pending {
				plan := []string{"p", "q"}[i]
				switch rapid.IntRange(0, 3).Draw(rt, name) {
				case 0:
					entries = append(entries, entry(name, w.rv))
					isNow, isFuture, sum = append(isNow, name), append(isFuture, name), sum+1
				case 1:
					entries = append(entries, hold(name, 1, plan, w.rv))
					isFuture, sum = append(isFuture, name), sum+1
				case 2: // one arrives, one leaves
					entries = append(entries, hold(name, 1, plan, w.rv), claim(bound[i], plan))
					isFuture = append(isFuture, name)
				}
			}
			if rapid.Bool().Draw(rt, "placeholder") {
				entries = append(entries, place(3))
				isFuture, sum = append(isFuture, ""), sum+1
			}
			w.promise("node-a", nil, entries...)
			names, got := w.asked(view.Now, "node-a", "")
			w.wantSum("now", names, got, len(isNow), isNow...)
			names, got = w.asked(view.Future, "node-a", "")
			w.wantSum("future", names, got, sum, isFuture...)
			names, got = w.asked(view.Future, "node-b", "p")
			w.wantSum("elsewhere", names, got, 0)
			w.checkFollower()
		}
	})
}
