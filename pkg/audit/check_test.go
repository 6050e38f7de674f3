package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// now returns the state at the end of a scenario, as `berth check` reads it.
func (s *scenario) now() CurrentState {
	s.Helper()
	var in CurrentState
	for _, n := range s.nodes {
		in.Nodes = append(in.Nodes, *n)
	}
	for _, p := range s.pods {
		in.Pods = append(in.Pods, *p)
	}
	for _, d := range s.docs {
		in.After = append(in.After, ledger.KV{
			Key: ledger.KeyNode(d.NodeUID), Value: s.must(codec.EncodeNodeDoc(d)), ModRevision: s.revision,
		})
	}
	in.Before = in.After
	return in
}

func (s *scenario) check(in CurrentState, want ...string) *CheckReport {
	s.Helper()
	report := Check(in)
	var got []string
	for _, f := range report.Findings {
		got = append(got, strings.Join(append([]string{string(f.Severity), f.Invariant}, f.Objects...), " "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("findings (-want +got):\n%s", diff)
	}
	return report
}

func TestCheckOfAGoodState(t *testing.T) {
	s := begin(t).node("n", "2", nil).node("m", "1", nil)
	s.pod("a", "1").pod("b", "1").pod("c", "1").pod("d", "1").pod("e", "1").place("n", "a", "b").place("m", "c")
	s.bind("a", "n")
	s.bind("c", "m")
	s.update("c", succeeds)
	s.state("n", "b", ledger.Fencing)
	s.foreign("d", "m")
	r := s.check(s.now())
	want := CheckReport{
		Nodes: 2, Pods: 5, Bound: 3, ByBerth: 2, Pending: 2, Reserved: 1, Fencing: 1, Findings: []Finding{},
	}
	if diff := cmp.Diff(want, *r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestCheckOfBadStates(t *testing.T) {
	t.Run("S1: bound and reserved together are too much", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a", "b")
		s.bind("a", "n")
		s.check(s.now(), "violation S1 node/n")
	})
	t.Run("a reservation that came while the rest was read does not count", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a")
		before := s.now().Before
		s.place("n", "b")
		in := s.now()
		in.Before = before
		s.check(in)
	})
	t.Run("S1: somebody else bound too", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a")
		s.bind("a", "n")
		s.foreign("b", "n")
		s.check(s.now(), "warning S1 node/n")
	})
	t.Run("fit: nodes that do not exist, are not selected, were tainted later", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1m").pod("b", "1m").pod("c", "1m", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		})
		for _, p := range []string{"a", "b", "c"} {
			s.tokens[p] = 1
		}
		s.bind("a", "gone")
		s.bind("c", "n")
		s.check(s.now(), "violation fit pod/d/a", "violation fit pod/d/c")
		s.change("n", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		s.bind("b", "n")
		s.check(s.now(), "violation fit pod/d/a", "violation fit pod/d/c", "warning fit pod/d/b")
	})
	t.Run("S7: ports and distances", func(t *testing.T) {
		zone := map[string]string{"zone": "z"}
		s := begin(t).node("n", "1", zone).node("m", "1", zone)
		s.pod("a", "1m", port(80), labelled("app", "x")).pod("b", "1m", port(80)).pod("c", "1m", apart("zone", "app", "x"))
		for _, p := range []string{"a", "b", "c"} {
			s.tokens[p] = 1
		}
		s.bind("a", "n")
		s.bind("b", "n")
		s.bind("c", "m")
		in := s.now()
		slices.SortFunc(in.Pods, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
		s.check(in, "violation S7 pod/d/b pod/d/a", "violation S7 pod/d/c pod/d/a")
	})
	t.Run("S1: a reservation on the node before", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1").place("n", "a")
		s.happens(recording.Object{Kind: recording.KindNode, UID: "n-uid", Gone: true})
		again := s.nodes["n"].DeepCopy()
		again.UID = "n-uid-2"
		s.nodes["n"] = again
		s.bind("b", "n")
		s.check(s.now(), "violation S1 node/n")
	})
	t.Run("S3 and form", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).node("m", "1", nil).pod("a", "1").place("m", "a").place("n", "a")
		in := s.now()
		in.After = append(in.After, ledger.KV{Key: "n/x", Value: []byte("?"), ModRevision: 1})
		s.check(in, "violation S3 pod/d/a", "violation form ledger/n/x")
	})
}

func TestCheckOfVictimsAndBudgets(t *testing.T) {
	state := func(allowed int32, doc *ledger.BudgetDoc, marks ...string) (*scenario, CurrentState) {
		s := crowded(t, allowed)
		s.nominate("v")
		s.marks(marks...)
		in := s.now()
		b := recording.Budget{}
		b.Namespace, b.Name, b.UID, b.Status.DisruptionsAllowed = "d", "pdb", pdbUID, allowed
		in.Budgets = []recording.Budget{b}
		if doc != nil {
			in.After = append(in.After, ledger.KV{Key: ledger.KeyBudget(pdbUID), Value: s.must(codec.EncodeBudget(*doc))})
			in.Before = in.After
		}
		return s, in
	}
	claimed := func(pods ...string) *ledger.BudgetDoc {
		d := ledger.BudgetDoc{UID: pdbUID}
		for _, p := range pods {
			d.Claims = append(d.Claims, ledger.BudgetClaim{PodUID: p + "-uid", PodRV: 100, Plan: planID})
		}
		return &d
	}
	t.Run("as it should be", func(t *testing.T) {
		s, in := state(1, claimed("v"), "v")
		s.TB = t
		if r := s.check(in); r.Victims != 1 {
			t.Errorf("%d victims, want 1", r.Victims)
		}
	})
	t.Run("S6: claimed for nobody, and more than is allowed", func(t *testing.T) {
		s, in := state(1, claimed("v", "w"))
		s.TB = t
		s.check(in, "violation S6 pod/d/w ledger/b/"+pdbUID, "warning S6 poddisruptionbudget/d/pdb")
	})
	t.Run("more than is allowed, regardless of that", func(t *testing.T) {
		doc := claimed("v")
		doc.Claims[0].Regardless = true
		s, in := state(0, doc, "v")
		s.TB = t
		s.check(in)
	})
	t.Run("S5: claimed on two nodes", func(t *testing.T) {
		s, _ := state(1, nil)
		s.TB = t
		s.node("m", "1", nil).edit("m", func(d *ledger.NodeDoc) { d.Entries = append(d.Entries, claimOn("v", "8")) })
		s.check(s.now(), "violation S5 pod/d/v")
	})
	t.Run("S9: told to go, and not marked", func(t *testing.T) {
		s, _ := state(1, nil)
		s.TB = t
		s.update("v", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Reason: corev1.PodReasonPreemptionByScheduler,
				Message: "berth: preempting to accommodate a higher priority pod",
			}}
		})
		s.check(s.now(), "warning S9 pod/d/v")
	})
	t.Run("form", func(t *testing.T) {
		s, in := state(1, nil)
		s.TB = t
		in.After = append(in.After, ledger.KV{Key: ledger.KeyBudget("x"), Value: []byte("?"), ModRevision: 1})
		s.check(in, "violation form ledger/b/x")
	})
}
