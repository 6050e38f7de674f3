package nodemarks

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Marker keeps the marks on nodes.
type Marker struct {
	*basis.Base
	// waiting are the pods that are held back, by UID.
	waiting map[string]*heldBack
	// nodes are the nodes that have marks or should have some, by UID.
	nodes    map[string]*node
	promised promised
	// began is when the first facts were seen, advancedAt when marks were last compared.
	began, advancedAt time.Time
	// budget is how many writes may be sent at once; refilledAt is when it last grew.
	budget     int
	refilledAt time.Time
	// dropped counts pods that are not considered because MarkLimits.Pods was reached.
	dropped uint64
}

// New returns a marker that knows of no marks.
func New(base *basis.Base) *Marker {
	return &Marker{
		Base: base, waiting: map[string]*heldBack{}, nodes: map[string]*node{}, budget: base.Limits.Marks.Burst,
	}
}

// off reports whether the marker neither writes nor removes marks.
func (m *Marker) off() bool { return m.Limits.Marks.Mode == basis.MarksNone }

// Shown adopts the marks that facts show. all means that no other node has any.
func (m *Marker) Shown(shown []effect.MarkedNode, all bool) {
	if m.off() {
		return
	}
	listed := make(map[string]bool, len(shown))
	for _, s := range shown {
		listed[s.UID] = true
		n := m.nodes[s.UID]
		if n == nil {
			n = m.node(s.UID, s.Name)
		}
		n.show(m, nodemark.Read(s.Marks))
	}
	for uid, n := range m.nodes {
		if all && !listed[uid] {
			n.show(m, nodemark.Marks{})
		}
	}
}

// node adds a node.
func (m *Marker) node(uid, name string) *node {
	n := &node{uid: uid, name: name, Pacing: basis.Pacing{Retry: m.Limits.Retry}}
	m.nodes[uid] = n
	return n
}

// Seen notes what a decision about a pod says of nodes that are withheld from it.
func (m *Marker) Seen(d events.Decision) {
	if m.Limits.Marks.Mode != basis.MarksWrite {
		return
	}
	if len(d.Withheld) == 0 {
		delete(m.waiting, d.Pod.UID)
		return
	}
	if _, known := m.waiting[d.Pod.UID]; !known && len(m.waiting) >= m.Limits.Marks.Pods {
		m.dropped++
		return
	}
	m.waiting[d.Pod.UID] = &heldBack{nodes: d.Withheld, at: m.Now, factSequence: d.FactSequence}
}

// Advance compares the marks that nodes have with those that they should have, at most once in basis.RoundEvery, and
// requests writes as far as the budget goes.
//
// Order: the only effect is the write of a node. A crash before or after it leaves a node whose marks the facts show,
// and which this binder or another one compares again.
func (m *Marker) Advance() {
	if m.off() || m.Idle() || m.Facts.Cluster == nil || m.Now.Sub(m.advancedAt) < basis.RoundEvery {
		return
	}
	m.advancedAt = m.Now
	if m.began.IsZero() {
		m.began, m.refilledAt = m.Now, m.Now
	}
	m.refill()
	want := m.wanted()
	for uid := range want {
		if _, known := m.nodes[uid]; !known {
			if n, exists := m.Facts.Cluster.Node(uid); exists {
				m.node(uid, n.Name)
			}
		}
	}
	uids := slices.Sorted(maps.Keys(m.nodes))
	for _, adds := range []bool{false, true} {
		for _, uid := range uids {
			if n, still := m.nodes[uid]; still && n.adds(want[uid]) == adds {
				n.advance(m, want[uid])
			}
		}
	}
}

// refill lets the budget grow with time.
func (m *Marker) refill() {
	grown := int(m.Now.Sub(m.refilledAt) / m.Limits.Marks.Every)
	m.refilledAt = m.refilledAt.Add(time.Duration(grown) * m.Limits.Marks.Every)
	m.budget = min(m.budget+grown, m.Limits.Marks.Burst)
}

// wanted returns the marks that nodes should have, by UID.
func (m *Marker) wanted() map[string]nodemark.Marks {
	want := map[string]nodemark.Marks{}
	if m.Limits.Marks.Mode != basis.MarksWrite {
		return want
	}
	for uid := range m.keptNodes() {
		want[uid] = nodemark.Marks{Kept: true}
	}
	for _, uid := range m.withheld() {
		marks := want[uid]
		marks.Withheld = true
		want[uid] = marks
	}
	return want
}

// Stats counts the nodes of this binder's partitions that have marks, and the dropped pods.
type Stats struct {
	Withheld, Kept int
	Dropped        uint64
}

// Stats counts what the marker knows.
func (m *Marker) Stats() Stats {
	s := Stats{Dropped: m.dropped}
	for uid, n := range m.nodes {
		if !m.Holds(uid) {
			continue
		}
		if n.shown.Withheld {
			s.Withheld++
		}
		if n.shown.Kept {
			s.Kept++
		}
	}
	return s
}
