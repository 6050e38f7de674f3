package avoid

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Reason that all pods avoid a node.
type Reason uint8

// The reasons, the gravest first.
const (
	// Quarantine: what this shard and the ledger or the binders think of the node keeps differing.
	Quarantine Reason = iota
	// Doubt: its kubelet counts less room than we do.
	Doubt
	// Turn: another shard has asked to be alone there for a moment.
	Turn
	reasons
)

// Label is the value of a metric's label.
func (r Reason) Label() string { return [reasons]string{"quarantine", "doubt", "turn"}[r] }

// Message is what a pod's condition says of such nodes, in upstream's grammar.
func (r Reason) Message() string {
	return [reasons]string{
		"node(s) were in quarantine, because reservations on them keep failing",
		"node(s) had just rejected a pod for want of room",
		"node(s) were in use by another scheduler",
	}[r]
}

// OwnerMessage is the same of nodes that the pods of one owner avoid.
const OwnerMessage = "node(s) had just rejected a pod of the same owner"

// Because are the reasons for one node.
type Because uint8

func (b Because) has(r Reason) bool { return b&(1<<r) != 0 }

// Gravest is the first of the reasons; b must have one.
func (b Because) Gravest() Reason {
	for r := range reasons {
		if b.has(r) {
			return r
		}
	}
	return reasons - 1
}

// String is the labels of the reasons, sorted, with commas; empty for none.
func (b Because) String() string {
	var list []string
	for r := range reasons {
		if b.has(r) {
			list = append(list, r.Label())
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Gate stands between the view, which says whether a node may be used, and the engine, which is told whether it is to
// be. It implements view.Follower.
type Gate struct {
	*engine.Engine
	// late are the nodes that may not be used yet as the view has it.
	late map[*state.NodeInfo]struct{}
	// avoided are the nodes that all pods avoid, by UID.
	avoided map[string]Because
}

// NewGate returns a gate that avoids no node.
func NewGate(e *engine.Engine) *Gate {
	return &Gate{Engine: e, late: map[*state.NodeInfo]struct{}{}, avoided: map[string]Because{}}
}

// SetNode implements view.Follower. A node may have been replaced under its name.
func (g *Gate) SetNode(n *state.NodeInfo) {
	g.Engine.SetNode(n)
	g.set(n)
}

// DropNode implements view.Follower.
func (g *Gate) DropNode(n *state.NodeInfo) {
	delete(g.late, n)
	g.Engine.DropNode(n)
}

// SetUsable implements view.Follower.
func (g *Gate) SetUsable(n *state.NodeInfo, usable bool) {
	delete(g.late, n)
	if !usable {
		g.late[n] = struct{}{}
	}
	g.set(n)
}

func (g *Gate) set(n *state.NodeInfo) { g.Engine.SetUsable(n, g.Usable(n)) }

// Usable reports whether a node may be used, and is not avoided.
func (g *Gate) Usable(n *state.NodeInfo) bool { return !g.Late(n) && g.avoided[n.Node.UID] == 0 }

// Late reports whether the view does not let a node be used yet.
func (g *Gate) Late(n *state.NodeInfo) bool {
	_, late := g.late[n]
	return late
}

// Avoided are the nodes that all pods avoid, by UID; not to be changed.
func (g *Gate) Avoided() map[string]Because { return g.avoided }
