package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// markRig is a rig whose binder writes marks, in a cluster of several nodes. real are the nodes of the API server.
type markRig struct {
	*rig
	real map[string]*corev1.Node
}

func newMarkRig(t *testing.T, mode basis.MarkMode, pods, nodes int) *markRig {
	m := &markRig{rig: newRig(t, pods), real: map[string]*corev1.Node{}}
	m.b.core.base.Limits.Marks.Mode = mode
	for i := range nodes {
		name := fmt.Sprint("n", i)
		if i > 0 {
			m.api.addNode(name)
		}
		m.real[name+"-uid"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	}
	m.look()
	// The binder has just started: it removes no marks yet.
	m.wait(time.Second)
	m.wait(m.limits().Fresh)
	m.quiet("nothing is withheld")
	return m
}

func (m *markRig) limits() basis.MarkLimits { return m.b.core.base.Limits.Marks }

// look shows the binder the cluster, with the marks on all nodes.
func (m *markRig) look() {
	var marked []effect.MarkedNode
	for uid, n := range m.real {
		shown := n.DeepCopy()
		nodemark.Strip(shown)
		if s := state.NewNode(shown); s.Marks != "" {
			marked = append(marked, effect.MarkedNode{UID: uid, Name: n.Name, Marks: s.Marks})
		}
	}
	now := m.api.now()
	m.step(m.b, effect.FactsChanged{
		Cluster: now, Sequence: uint64(len(m.api.history)), PodProgress: now.rv, PodProgressKnown: true,
		Nodes: func() int { return len(now.nodes) }, Marked: marked, MarkedAll: true,
	})
}

// mark carries out the only effect, which must be a mark of a node, and shows its outcome.
func (m *markRig) mark(node string, want nodemark.Marks) {
	m.Helper()
	e := answer(m.rig, func(e effect.MarkNode) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Done}
	})
	if e.NodeName != node || e.NodeUID != node+"-uid" || e.Marks != want {
		m.Fatalf("%s gets %s, want %s to get %s", e.NodeName, e.Marks, node, want)
	}
	nodemark.Set(m.real[e.NodeUID], e.Marks)
	m.look()
}

// held is the decision about a pod that only these nodes would take.
func (m *markRig) held(kind events.DecisionKind, pod string, nodes ...string) events.Decision {
	return events.Decision{
		Kind: kind, Pod: about(pod), SchedulerName: "berth", Token: ledger.Token(77).String(), Message: "no",
		Withheld: nodes, FactSequence: uint64(len(m.api.history)),
	}
}

// conditions carries out the conditions that decisions require besides, and returns their reasons.
func (m *markRig) conditions() (reasons []string) {
	m.Helper()
	for {
		at := slices.IndexFunc(m.b.lines, func(e effect.Effect) bool { _, is := e.(effect.PatchCondition); return is })
		if at < 0 {
			return reasons
		}
		c, _ := m.b.lines[at].(effect.PatchCondition)
		m.b.lines = slices.Delete(m.b.lines, at, at+1)
		reasons = append(reasons, c.Condition.Reason)
		m.step(m.b, effect.Answered{Op: c.Op, Result: effect.Done, ResourceVersion: m.api.now().rv})
	}
}

var (
	none     = nodemark.Marks{}
	withheld = nodemark.Marks{Withheld: true}
	kept     = nodemark.Marks{Kept: true}
)

// A node is withheld from when a decision names it until none has named it for a while, and the pod's condition is one
// that autoscalers consider.
func TestNodeIsWithheldWhileDecisionsNameIt(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 1, 2)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	if got := m.conditions(); !slices.Equal(got, []string{corev1.PodReasonUnschedulable}) {
		t.Fatalf("conditions %v, want one Unschedulable", got)
	}
	m.wait(time.Second)
	m.mark("n1", withheld)
	m.wait(m.limits().Named / 2)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	m.conditions()
	m.wait(m.limits().Named - time.Second)
	m.quiet("named again")
	m.wait(2 * time.Second)
	m.mark("n1", none)
	m.wait(time.Hour)
	m.quiet("nothing is left")
}

// Without the switch, a decision that names nodes has no effect on them, and the condition is that of an error.
func TestMarksAreOffByDefault(t *testing.T) {
	m := newMarkRig(t, basis.MarksNone, 1, 2)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	if got := m.conditions(); !slices.Equal(got, []string{corev1.PodReasonSchedulerError}) {
		t.Fatalf("conditions %v, want one SchedulerError", got)
	}
	nodemark.Set(m.real["n0-uid"], withheld)
	m.look()
	m.wait(time.Hour)
	m.quiet("off")
}

// The end of a pod's wait ends the mark, but not at once, so that pods which come and go do not make it flap.
func TestMarkEndsWithTheWait(t *testing.T) {
	for name, end := range map[string]func(m *markRig){
		"bound": func(m *markRig) {
			m.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n0" })
			m.look()
		},
		"deleted": func(m *markRig) {
			m.api.deletePod("p0-uid")
			m.look()
		},
		"another verdict": func(m *markRig) {
			m.receive(m.held(events.DecisionUnplaceable, "p0"))
			m.conditions()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarkRig(t, basis.MarksWrite, 1, 2)
			m.receive(m.held(events.DecisionUnplaceable, "p0", "n1"))
			m.conditions()
			m.wait(time.Second)
			m.mark("n1", withheld)
			end(m)
			m.wait(m.limits().Least - time.Second)
			m.quiet("it would flap")
			m.wait(2 * time.Second)
			m.mark("n1", none)
		})
	}
}

// A pod that waits for a kept place is not tried again until the place is given up, so its record is not renewed.
func TestMarkLastsWhileAPlaceIsKept(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 2, 2)
	place := ledger.NodeDoc{NodeUID: "n1-uid", NodeName: "n1", Entries: []ledger.Entry{{
		PodUID: "p1-uid", Namespace: "ns", Name: "p1", Role: ledger.RoleMove, Token: 5, PodRV: 1,
		Plan: ledger.PlanID(5, false),
	}}}
	if !m.replace(place) {
		t.Fatal("no place")
	}
	m.showDocs(m.b, len(m.ledger.history))
	m.b.core.base.Limits.KeepPlace = time.Hour
	m.b.core.base.Limits.Overdue = time.Hour
	m.receive(m.held(events.DecisionUnplaceable, "p0", "n1"))
	m.conditions()
	m.wait(time.Second)
	m.mark("n1", withheld)
	m.wait(m.limits().Look)
	m.quiet("the place has just been seen")
	m.wait(m.limits().Look)
	m.mark("n1", nodemark.Marks{Withheld: true, Kept: true})
	m.wait(10 * m.limits().Named)
	m.quiet("the place is still kept")
	place = m.ledger.current[ledger.KeyNode("n1-uid")]
	place.Entries = nil
	if !m.replace(place) {
		t.Fatal("the place is not given up")
	}
	m.showDocs(m.b, len(m.ledger.history))
	m.wait(m.limits().Look)
	m.mark("n1", none)
}

// A node on which a pod waits for its volumes must not be removed. One whose reservations come and go is not marked.
func TestNodeIsKeptUnderALongReservation(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 1, 2)
	m.b.core.base.Limits.BindDeadline = time.Hour
	m.reserve()
	next[effect.Bind](m.rig)
	m.b.lines = nil // it is never answered
	m.wait(time.Second)
	m.quiet("it may be bound soon")
	m.wait(m.limits().Look)
	m.quiet("it has just been seen")
	m.wait(m.limits().Look)
	m.mark("n0", kept)
	m.wait(time.Minute)
	m.quiet("it waits still")
	m.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n0" })
	m.look()
	m.b.lines = nil // the hand-over of the entry
	m.wait(m.limits().Look)
	m.b.lines = slices.DeleteFunc(m.b.lines, func(e effect.Effect) bool { _, is := e.(effect.Amend); return is })
	m.mark("n0", none)
}

// Marks that a binder finds are removed, but not before it can have read what asks for them.
func TestFoundMarksAreRemoved(t *testing.T) {
	for name, mode := range map[string]basis.MarkMode{"write": basis.MarksWrite, "remove": basis.MarksRemove} {
		t.Run(name, func(t *testing.T) {
			m := newMarkRig(t, mode, 1, 2)
			nodemark.Set(m.real["n1-uid"], nodemark.Marks{Withheld: true, Kept: true})
			m.boot(m.b)
			m.b.core.base.Limits.Marks.Mode = mode
			m.look()
			m.wait(time.Second)
			if mode == basis.MarksWrite {
				m.quiet("just started")
				m.wait(m.limits().Fresh)
			}
			m.mark("n1", none)
			m.receive(m.held(events.DecisionFailed, "p0", "n1"))
			m.conditions()
			m.wait(2 * time.Second)
			if mode == basis.MarksRemove {
				m.quiet("no marks are written")
				return
			}
			m.mark("n1", withheld)
		})
	}
}

// Writes are repeated until the facts show them, not while they are in flight, and rarely when they are refused.
func TestMarksAreWrittenAtABoundedRate(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 1, 2)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	m.conditions()
	m.wait(time.Second)
	refused := 0
	for range 5 * 60 {
		if len(m.b.lines) > 0 {
			answer(m.rig, func(e effect.MarkNode) effect.Input {
				refused++
				return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "no right"}
			})
		}
		m.wait(time.Second)
		m.receive(m.held(events.DecisionFailed, "p0", "n1"))
		m.conditions()
	}
	if refused < 4 || refused > 6 {
		t.Errorf("%d refused writes in 5 minutes, want one a minute", refused)
	}
}

// However many nodes are withheld, they get their marks at the rate of the budget, and never more than half of the
// cluster has one.
func TestMarksAreBounded(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 8, 40)
	for pod := range 3 {
		var nodes []string
		for i := range 12 {
			nodes = append(nodes, fmt.Sprint("n", 12*pod+i))
		}
		m.receive(m.held(events.DecisionFailed, fmt.Sprint("p", pod), nodes...))
	}
	m.conditions()
	burst, writes := 0, 0
	for second := range 50 {
		m.wait(time.Second)
		for len(m.b.lines) > 0 {
			e, is := m.b.lines[0].(effect.MarkNode)
			if !is || !e.Marks.Withheld {
				t.Fatalf("effects %s", lines(m.b))
			}
			m.b.lines = m.b.lines[1:]
			m.step(m.b, effect.Answered{Op: e.Op, Result: effect.Done})
			nodemark.Set(m.real[e.NodeUID], e.Marks)
			if writes++; second == 0 {
				burst++
			}
		}
		m.look()
	}
	if l := m.limits(); burst != l.Burst || writes != 20 {
		t.Errorf("%d writes at once and %d in all, want %d and half of 40 nodes", burst, writes, l.Burst)
	}
}

// A binder without the node's partition writes nothing, and knows what is withheld when it gets the partition.
func TestMarksOfAnotherBinder(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 1, 2)
	m.hold(m.b, false)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	m.wait(2 * time.Second)
	m.quiet("not ours")
	m.hold(m.b, true)
	m.conditions()
	m.wait(time.Second)
	m.mark("n1", withheld)
	if s := m.b.core.Stats(); s.Withheld != 1 || s.Kept != 0 {
		t.Errorf("%d withheld and %d kept", s.Withheld, s.Kept)
	}
}

// A node that is deleted, or registers again under its name, needs no write.
func TestMarkedNodeIsDeleted(t *testing.T) {
	m := newMarkRig(t, basis.MarksWrite, 1, 2)
	m.receive(m.held(events.DecisionFailed, "p0", "n1"))
	m.conditions()
	m.wait(time.Second)
	m.mark("n1", withheld)
	m.api.write(func(v *apiVersion) { delete(v.nodes, "n1-uid") })
	delete(m.real, "n1-uid")
	m.look()
	m.wait(time.Hour)
	m.quiet("gone")
}
