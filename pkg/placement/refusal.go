package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// reason is the Explain method of a filter whose reason is the same for all nodes.
type reason string

// Explain implements Filter.
func (r reason) Explain(*state.NodeInfo) []string { return []string{string(r)} }

// refusal is a filter that no node passes.
type refusal struct{ reason }

// Check implements Filter.
func (refusal) Check(*state.NodeInfo) Code { return UnschedulableAndUnresolvable }

// pass is a filter that every node passes.
type pass struct{}

// Check implements Filter.
func (pass) Check(*state.NodeInfo) Code { return Success }

// Explain implements Filter.
func (pass) Explain(*state.NodeInfo) []string { return nil }

// refuseAll is a filter that no node passes, for one reason.
func refuseAll(why string) Filter { return refusal{reason(why)} }

// onlyTraits reports whether the filter reads only traits of a node.
func (refusal) onlyTraits() bool { return true }
