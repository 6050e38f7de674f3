package nodemarks

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// heldBack is a pod that some nodes would take but for Berth.
type heldBack struct {
	// nodes are the names of these nodes, at is when a decision last named them, and factSequence the position of the
	// facts that it used.
	nodes        []string
	at           time.Time
	factSequence uint64
}

// over reports whether a pod does not wait for its nodes any more: it is gone, bound, or has a place.
func (m *Marker) over(uid string, h *heldBack) bool {
	p, known, gone := m.Pod(uid, 0)
	if _, _, reserved := m.Ledger.Entry(uid); reserved {
		return true
	}
	if !known {
		return gone && m.Facts.Sequence >= h.factSequence
	}
	return p.NodeName != "" || p.Deleting || p.Terminal
}

// withheld returns the UIDs of the nodes that are withheld from pods, and forgets the pods that do not wait for any. A
// pod that avoids a node is tried again within its backoff, and its record renewed; one that waits for a place that is
// kept for another pod is not tried again until that ends, so the ledger shows how long that lasts.
func (m *Marker) withheld() []string {
	nodes := map[string]bool{}
	for uid, h := range m.waiting {
		named := m.Now.Sub(h.at) < m.Limits.Marks.Named
		waits := false
		for _, name := range h.nodes {
			n, exists := m.Facts.Cluster.NodeByName(name)
			if exists && (named || m.keepsPlace(n.UID)) {
				waits = true
				nodes[n.UID] = true
			}
		}
		if !waits && !named || m.over(uid, h) {
			delete(m.waiting, uid)
		}
	}
	return m.bounded(nodes)
}

// keepsPlace reports whether a place on a node is kept for the replacement of a moved pod.
func (m *Marker) keepsPlace(nodeUID string) bool {
	doc, ok := m.Ledger.Doc(nodeUID)
	return ok && slices.ContainsFunc(doc.Entries, func(e ledger.Entry) bool { return e.Role == ledger.RoleMove })
}

// bounded returns as many of the nodes as may be withheld at once, those first that have the mark: half of the cluster,
// and MarkLimits.Nodes at most. DaemonSets, and other schedulers beside Berth, do without a withheld node.
func (m *Marker) bounded(nodes map[string]bool) []string {
	if len(nodes) == 0 || m.Facts.Nodes == nil {
		return nil
	}
	most := min(max(1, m.Facts.Nodes()/2), m.Limits.Marks.Nodes)
	uids := slices.Sorted(maps.Keys(nodes))
	slices.SortStableFunc(uids, func(a, b string) int { return cmp.Compare(m.rank(a), m.rank(b)) })
	return uids[:min(len(uids), most)]
}

// rank returns 0 for a node that has the mark, else 1.
func (m *Marker) rank(uid string) int {
	if n, known := m.nodes[uid]; known && n.shown.Withheld {
		return 0
	}
	return 1
}

// promised are the places in the ledger that the API server does not show, as of the last look at all documents.
type promised struct {
	// places are their tokens by the node's UID. kept are the nodes with a place that the look before had as well.
	places map[string][]ledger.Token
	kept   map[string]bool
	at     time.Time
}

// keptNodes returns the nodes that must not be removed: places on them have been promised for at least
// MarkLimits.Look, and for less than twice that if they are new. Pods without volumes and devices are bound long
// before.
func (m *Marker) keptNodes() map[string]bool {
	p := &m.promised
	if m.Now.Sub(p.at) < m.Limits.Marks.Look {
		return p.kept
	}
	places, kept := map[string][]ledger.Token{}, map[string]bool{}
	for d := range m.Ledger.Docs() {
		for i := range d.Entries {
			if e := &d.Entries[i]; m.unseen(e) {
				places[d.NodeUID] = append(places[d.NodeUID], e.Token)
				kept[d.NodeUID] = kept[d.NodeUID] || slices.Contains(p.places[d.NodeUID], e.Token)
			}
		}
	}
	maps.DeleteFunc(kept, func(_ string, is bool) bool { return !is })
	m.promised = promised{places: places, kept: kept, at: m.Now}
	return kept
}

// unseen reports whether an entry is a place that the API server does not show. While victims still have to leave, the
// node does not look empty; its pod's nominatedNodeName shows the place.
func (m *Marker) unseen(e *ledger.Entry) bool {
	switch {
	case e.Role == ledger.RoleMove:
		return true
	case e.Role != ledger.RoleReservation, e.State == ledger.Held && !txns.IsPrepared(e.Plan):
		return false
	}
	p, known, _ := m.Pod(e.PodUID, 0)
	return !known || p.NodeName == ""
}
