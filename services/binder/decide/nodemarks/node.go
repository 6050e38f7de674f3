package nodemarks

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// node is a node with marks, or one that should have some. At most one write of it is in flight.
type node struct {
	uid, name string
	// shown are the marks by the facts, and withheldAt is when they first had Withheld.
	shown      nodemark.Marks
	withheldAt time.Time
	op         effect.OpID
	basis.Pacing
}

// work is a node that waits for the answer to its effect.
type work struct {
	n *node
	m *Marker
}

// Answered implements effect.Machine.
func (w work) Answered(in effect.Input) { w.n.answered(w.m, in) }

// show adopts the marks that facts show.
func (n *node) show(m *Marker, marks nodemark.Marks) {
	if marks.Withheld && !n.shown.Withheld {
		n.withheldAt = m.Now
	}
	n.shown = marks
}

// adds reports whether the node lacks a mark that it should have.
func (n *node) adds(want nodemark.Marks) bool {
	return want.Withheld && !n.shown.Withheld || want.Kept && !n.shown.Kept
}

// advance requests the write that gives the node the marks, if it is needed and time for it. A node without marks that
// should have none is forgotten.
func (n *node) advance(m *Marker, want nodemark.Marks) {
	if n.op != 0 || m.Now.Before(n.Due) {
		return
	}
	if _, exists := m.Facts.Cluster.Node(n.uid); !exists {
		delete(m.nodes, n.uid)
		return
	}
	if want = n.linger(m, want); want == n.shown {
		if want == (nodemark.Marks{}) {
			delete(m.nodes, n.uid)
		}
		return
	}
	if m.budget == 0 || !m.MayAct(n.uid) {
		return
	}
	m.budget--
	n.op = m.Begin(work{n, m})
	m.Emit(effect.MarkNode{Op: n.op, NodeUID: n.uid, NodeName: n.name, Marks: want})
}

// linger returns the marks that the node should have, with those that it keeps for a little longer: Withheld for
// MarkLimits.Least, so that pods which come and go do not make it flap; and any mark while this binder may not have
// read all that asks for it.
func (n *node) linger(m *Marker, want nodemark.Marks) nodemark.Marks {
	l := m.Limits.Marks
	if l.Mode == basis.MarksRemove {
		return want
	}
	fresh := m.Now.Sub(m.began) < l.Fresh
	want.Withheld = want.Withheld || n.shown.Withheld && (fresh || m.Now.Sub(n.withheldAt) < l.Least)
	want.Kept = want.Kept || n.shown.Kept && fresh
	return want
}

// answered handles the end of a write. The facts show its outcome; until then nothing is written again.
func (n *node) answered(m *Marker, in effect.Input) {
	n.op = 0
	a, ok := in.(effect.Answered)
	if !ok {
		return // NotStarted: it is compared again
	}
	switch a.Result {
	case effect.Done, effect.Gone:
		n.Retry = m.Limits.Retry
		n.Due = m.Now.Add(m.Limits.Idle)
	case effect.Refused:
		n.Due = m.Now.Add(m.Limits.Marks.Refused)
	default:
		n.Pause(m.Now)
	}
}
