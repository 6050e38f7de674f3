package view

import (
	"iter"
	"maps"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// View joins a state.Store and a replica.View, both updated by the owner of this View, into one NodeInfo per node.
// It is not safe for concurrent use.
type View struct {
	ledger *replica.View
	facts  TxnFacts
	nodes  *nodeTable
	tally  tally
	staged map[string]stagedPod
	// unknown holds UIDs with a reservation whose pod the API view does not show (yet), or not in the version that
	// was decided on. They must be checked again whenever progress moves.
	unknown map[string]struct{}
	kept    keptPlaces
	// nominated are the pods that count nowhere and are nominated to a node.
	nominated nominations
}

// New returns a view over a store and a ledger view in any state. The follower receives everything that exists, and
// every change from then on; nil for no follower.
func New(store Facts, l *replica.View, f Follower) *View {
	if f == nil {
		f = noFollower{}
	}
	v := &View{ledger: l, nodes: newNodeTable(f, 0)}
	v.Reset(store)
	return v
}

// Reset rebuilds everything on a new store (after a gap in the log). Staged pods stay.
func (v *View) Reset(store Facts) {
	nodes := v.nodes.renewed()
	*v = View{
		ledger:  v.ledger,
		facts:   TxnFacts{store: store, fates: fates{every: v.facts.fates.every}},
		nodes:   nodes,
		tally:   newTally(nodes),
		staged:  v.staged,
		unknown: map[string]struct{}{},
		kept:    newKeptPlaces(v.kept.taken),

		nominated: newNominations(),
	}
	if v.staged == nil {
		v.staged = map[string]stagedPod{}
	}
	v.facts.snapshot = store.Snapshot()
	for n := range v.facts.snapshot.Nodes() {
		v.nodes.set(n)
	}
	for p := range v.facts.snapshot.Pods() {
		v.recount(p.UID)
	}
	v.RecountLedger()
	for uid := range v.staged {
		v.recount(uid)
	}
}

// RecountLedger recounts every reservation (after the ledger view was reset).
func (v *View) RecountLedger() {
	seen := make([]string, 0, len(v.tally.counted))
	for uid := range v.tally.counted {
		seen = append(seen, uid)
	}
	for doc := range v.ledger.Docs() {
		for i := range doc.Entries {
			if doc.Entries[i].Role == ledger.RoleReservation {
				seen = append(seen, doc.Entries[i].PodUID)
			}
		}
		seen = append(seen, placeholdersOf(doc)...)
	}
	for _, uid := range seen {
		v.recount(uid)
	}
	v.nodes.markAllDirty()
}

// ApplyFacts folds in what store.Apply just changed.
func (v *View) ApplyFacts(c state.Changes) {
	v.facts.snapshot = v.facts.store.Snapshot()
	for _, n := range c.Nodes {
		if n.After == nil {
			v.dropNode(n.Before)
			continue
		}
		v.nodes.set(n.After)
	}
	for _, p := range c.Pods {
		if p.After != nil {
			v.recountAs(p.After.UID, p.After)
		} else {
			v.recountAs(p.Before.UID, nil)
			_, _, claimed := v.ledger.Plans().Victim(p.Before.UID)
			if claimed || v.facts.fates.every {
				v.facts.recordGone(p.Before.UID, p.DeletedRV)
			} else {
				v.facts.fates.recordUnclaimed(p.Before.UID, p.DeletedRV)
			}
		}
	}
	for uid := range v.unknown {
		v.recount(uid)
	}
}

// ApplyLedger recounts the pods whose entries changed, and rechecks the nodes whose documents changed.
func (v *View) ApplyLedger(c replica.Changes) {
	for _, uid := range c.PodUIDs {
		v.recount(uid)
	}
	for i := range c.Docs {
		d := &c.Docs[i]
		v.nodes.markNameDirty(d.Before.NodeName)
		if d.After.NodeName != d.Before.NodeName {
			v.nodes.markNameDirty(d.After.NodeName)
		}
		v.recountPlaceholders(d.Removed)
		v.recountPlaceholders(d.Added)
	}
	for _, name := range c.Names {
		v.nodes.markNameDirty(name)
	}
	if c.Floor {
		v.nodes.markAllDirty()
	}
}

// recountPlaceholders recounts the placeholders among entries that changed.
func (v *View) recountPlaceholders(entries []*ledger.Entry) {
	for _, e := range entries {
		if e.Role == ledger.RoleMove {
			v.recount(PlaceholderUID(e.Token))
		}
	}
}

// Nodes returns the nodes that exist, each with what counts on it. The slice and the NodeInfos belong to the View:
// read them before the next call that changes it.
func (v *View) Nodes() []*state.NodeInfo { return v.nodes.existing }

// NodesVersion changes when a node appears, disappears or is replaced under its name.
func (v *View) NodesVersion() uint64 { return v.nodes.version }

// Counted iterates over the UIDs of the pods that count somewhere, in no order; a placeholder
// counts under a UID that no object has.
func (v *View) Counted() iter.Seq[string] { return maps.Keys(v.tally.counted) }

// Sizes returns how many nodes exist, how many pods count on nodes, and how many of those are only reserved or
// staged.
func (v *View) Sizes() (nodes, pods, reserved int) {
	return len(v.nodes.existing), len(v.tally.counted), v.tally.reserved
}

// Pod returns a pod of the API view.
func (v *View) Pod(uid string) (*state.Pod, bool) { return v.facts.snapshot.Pod(uid) }

// TxnFacts returns the API view in the form in which transactions read it.
func (v *View) TxnFacts() *TxnFacts { return &v.facts }

// Budgets returns the disruption budgets as a claim on this View uses them. The value is for one use: it shows the API
// view as last applied.
func (v *View) Budgets() Budgets { return BudgetsOf(v.facts.snapshot, v.ledger) }

// Snapshot returns the API view as last applied.
func (v *View) Snapshot() *state.Snapshot { return v.facts.snapshot }

// Node returns the node with a UID and what counts on it; false while the facts do not show it.
func (v *View) Node(uid string) (*state.NodeInfo, bool) {
	s, ok := v.nodes.byUID[uid]
	if !ok {
		return nil, false
	}
	return s.info, true
}

// dropNode removes a node. Pods that are bound to it count on its name from then on.
func (v *View) dropNode(n *state.Node) {
	s := v.nodes.drop(n)
	if s == nil {
		return
	}
	for p := range s.info.Pods() {
		if c, counted := v.tally.counted[p.UID]; counted && c.slot == s {
			v.tally.noteUnknownNode(p.UID, c)
		}
	}
	v.nodes.forget(s)
}
