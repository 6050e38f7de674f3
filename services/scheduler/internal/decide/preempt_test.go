package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

func important(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

// running adds a pod that stands on a node already.
func (w *world) running(name, node string, options ...func(*corev1.Pod)) string {
	w.addPod(name, append(options, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
	})...)
	return "pod-" + name
}

// hold is the reservation of a pod, and the document it stands in.
func (w *world) hold(uid string) (ledger.NodeDoc, ledger.Entry, bool) {
	for _, d := range w.docs() {
		if e, ok := d.Find(uid); ok {
			return d, e, true
		}
	}
	return ledger.NodeDoc{}, ledger.Entry{}, false
}

// claims are the claimed victims by UID.
func (w *world) claims() map[string]ledger.Entry {
	out := map[string]ledger.Entry{}
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim {
				out[e.PodUID] = e
			}
		}
	}
	return out
}

// mark does what a binder does before it evicts: all unmarked victims of a pod's plan are
// marked Evicting. It returns their UIDs.
func (w *world) mark(preemptor string) []string {
	w.t.Helper()
	owner, hold, ok := w.hold(preemptor)
	if !ok || hold.State != ledger.Held {
		return nil
	}
	x := ledger.EvictPlan{Plan: hold.Plan, Owner: owner}
	for _, d := range w.docs() {
		found := false
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.Plan == hold.Plan && e.State != ledger.Evicting {
				x.Victims, found = append(x.Victims, e.PodUID), true
			}
		}
		if found {
			x.Docs = append(x.Docs, d)
		}
	}
	if len(x.Victims) == 0 {
		return nil
	}
	change, err := ledger.MarkEvicting(x)
	if err != nil {
		w.t.Fatalf("mark: %v", err)
	}
	w.change(change)
	return x.Victims
}

func (w *world) change(c ledger.Change) {
	w.t.Helper()
	txn, err := c.Txn()
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.commit(txn).Succeeded {
		w.t.Fatalf("%+v lost a race in a test without one", c)
	}
}

// told delivers everything and answers what is in flight until nothing moves.
func (st *story) told() {
	st.t.Helper()
	for range 100 {
		st.tell()
		if st.s.commit == nil {
			if st.s.fact == len(st.facts) && st.s.ledger == len(st.history) {
				return
			}
			continue
		}
		st.answer()
	}
	st.t.Fatal("the shard does not come to rest")
}

func (st *story) kinds() []events.DecisionKind {
	var out []events.DecisionKind
	for _, d := range st.s.decisions {
		out = append(out, d.Kind)
	}
	return out
}

// A pod that fits nowhere gets a place held, its victim is claimed, and when that is gone it is
// promoted.
func TestPodIsNominatedAndPromoted(t *testing.T) {
	st := newStory(t, 2, 2, 1)
	a, b := st.running("a", "n0", important(5)), st.running("b", "n1")
	_ = a
	st.tell()
	p := st.pod("p", important(10))
	st.told()
	doc, hold, ok := st.hold(p)
	if !ok || hold.State != ledger.Held || doc.NodeName != "n1" || hold.Plan == "" {
		t.Fatalf("hold %+v on %s: want a place held on n1, where the least important pod is", hold, doc.NodeName)
	}
	if claim, ok := st.claims()[b]; !ok || claim.Plan != hold.Plan || claim.State != 0 {
		t.Fatalf("claims %+v: want one on %s", st.claims(), b)
	}
	if got := st.kinds(); !slices.Equal(got, []events.DecisionKind{events.DecisionNominated}) {
		t.Fatalf("decisions %v, want it nominated", got)
	}
	if d := st.s.decisions[0]; !strings.HasPrefix(d.Message, "0/2 nodes are available: 2 Insufficient cpu.") || d.NodeName != "n1" {
		t.Errorf("nominated to %s: %q", d.NodeName, d.Message)
	}
	st.mark(p)
	st.told()
	if _, hold, _ = st.hold(p); hold.State != ledger.Held {
		t.Fatalf("%s while the victim is there", hold.State)
	}
	st.deletePod(b)
	st.told()
	if _, hold, _ = st.hold(p); hold.State != ledger.Committed || hold.Plan != "" {
		t.Fatalf("hold %+v after the victim has gone, want it Committed", hold)
	}
	if len(st.claims()) != 0 {
		t.Errorf("claims %+v are left", st.claims())
	}
	if got := st.kinds(); got[len(got)-1] != events.DecisionPlaced {
		t.Errorf("decisions %v, want it placed at last", got)
	}
}

var _ = time.Second
var _ = decide.PlanAsked
