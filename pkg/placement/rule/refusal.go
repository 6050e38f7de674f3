package rule

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// Reason is the Explain method of a filter whose reason is the same for all nodes.
type Reason string

// Explain implements Filter.
func (r Reason) Explain(*state.NodeInfo) []string { return []string{string(r)} }

// refusal is a filter that no node passes.
type refusal struct{ Reason }

// Check implements Filter.
func (refusal) Check(*state.NodeInfo) Code { return UnschedulableAndUnresolvable }

// Pass is a filter that every node passes.
type Pass struct{}

// Check implements Filter.
func (Pass) Check(*state.NodeInfo) Code { return Success }

// Explain implements Filter.
func (Pass) Explain(*state.NodeInfo) []string { return nil }

// Refuse is a filter that no node passes, for one reason.
func Refuse(why string) Filter { return refusal{Reason(why)} }

// OnlyTraits reports whether the filter reads only traits of a node.
func (refusal) OnlyTraits() bool { return true }
