package avoid

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Reason is a reason for all pods to avoid a node.
type Reason uint8

// The reasons, the gravest first.
const (
	// Quarantine: this shard's view of the node keeps differing from that of the ledger or the binders.
	Quarantine Reason = iota
	// Doubt: its kubelet counts fewer free resources than we do.
	Doubt
	// Turn: another shard has asked to be alone there for a moment.
	Turn
	reasons
)

// Label returns the value of a metric's label.
func (r Reason) Label() string { return [reasons]string{"quarantine", "doubt", "turn"}[r] }

// Message returns the text about such nodes in a pod's condition, in upstream's grammar.
func (r Reason) Message() string {
	return [reasons]string{
		"node(s) were in quarantine, because reservations on them keep failing",
		"node(s) had just rejected a pod for want of room",
		"node(s) were in use by another scheduler",
	}[r]
}

// OwnerMessage is that text for nodes that the pods of one owner avoid.
const OwnerMessage = "node(s) had just rejected a pod of the same owner"

// Reasons is the set of reasons for one node.
type Reasons uint8

func (b Reasons) has(r Reason) bool { return b&(1<<r) != 0 }

// Gravest returns the gravest of the reasons; b must have one.
func (b Reasons) Gravest() Reason {
	for r := range reasons {
		if b.has(r) {
			return r
		}
	}
	return reasons - 1
}

// String returns the labels of the reasons, sorted, with commas; empty for none.
func (b Reasons) String() string {
	var list []string
	for r := range reasons {
		if b.has(r) {
			list = append(list, r.Label())
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Gate sits between the view, which reports whether a node may be used, and the engine, which is then set to use the
// node only if it is not avoided either. It implements view.Follower.
type Gate struct {
	*engine.Engine
	// behind are the nodes that the view does not allow to be used yet.
	behind map[*state.NodeInfo]struct{}
	// avoided are the nodes that all pods avoid, by UID.
	avoided map[string]Reasons
}

// NewGate returns a gate that avoids no node.
func NewGate(e *engine.Engine) *Gate {
	return &Gate{Engine: e, behind: map[*state.NodeInfo]struct{}{}, avoided: map[string]Reasons{}}
}

// SetNode implements view.Follower. A node may have been replaced under its name.
func (g *Gate) SetNode(n *state.NodeInfo) {
	g.Engine.SetNode(n)
	g.set(n)
}

// DropNode implements view.Follower.
func (g *Gate) DropNode(n *state.NodeInfo) {
	delete(g.behind, n)
	g.Engine.DropNode(n)
}

// SetUsable implements view.Follower.
func (g *Gate) SetUsable(n *state.NodeInfo, usable bool) {
	delete(g.behind, n)
	if !usable {
		g.behind[n] = struct{}{}
	}
	g.set(n)
}

// set sets in the engine whether a node may be used.
func (g *Gate) set(n *state.NodeInfo) { g.Engine.SetUsable(n, g.Usable(n)) }

// Usable reports whether a node may be used, and is not avoided.
func (g *Gate) Usable(n *state.NodeInfo) bool { return !g.Behind(n) && g.avoided[n.Node.UID] == 0 }

// Behind reports whether the view does not let a node be used yet.
func (g *Gate) Behind(n *state.NodeInfo) bool {
	_, late := g.behind[n]
	return late
}

// AvoidedNodes returns the nodes that all pods avoid, by UID. The caller must not change the map.
func (g *Gate) AvoidedNodes() map[string]Reasons { return g.avoided }
