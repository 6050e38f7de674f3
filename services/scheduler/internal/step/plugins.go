package step

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Consult asks the custom plugins and the extenders of a profile about a pod; the answer comes back as an
// Advice with its ID. With Candidates it is about them, and not about nodes (see consultvictims.go). All that it
// points to is shared, not to be changed.
type Consult struct {
	ID            uint64
	Shard         string
	SchedulerName string
	Pod           *state.Pod
	// GateOnly asks only whether the pod is to be tried: the rules let it nowhere.
	GateOnly bool
	// Nodes are those that the rules let pass, in no order.
	Nodes []*state.Node
	// Cluster is all nodes, in the order of their names, with what counts on them; nil for a profile
	// without custom plugins. A node that has not changed is the same pointer as in other questions.
	Cluster []*state.NodeInfo
	// Candidates are nodes on which the pod fits when others have gone, and who these are, for extenders to say
	// who may.
	Candidates []preempt.Candidate
}

// Advice is the answer to a Consult: what plugins say of the pod as a whole, nil for nothing, and an opinion
// of each node, by name; of candidates, those that are left. HeldBack says that the pod is not to be tried yet. Err
// ends the attempt.
type Advice struct {
	ID       uint64
	HeldBack *Refusal
	Guidance *placement.Guidance
	Opinions map[string]placement.Opinion
	// Candidates are those of the question on which extenders have left victims, perhaps others.
	Candidates []preempt.Candidate
	Err        error
}

// Act is what plugins are to do about a pod and its node.
type Act uint8

// The acts. ActReserve is upstream's Reserve, Permit and PreBindPreFlight, ActPrepare the wait that Permit asked for
// and PreBind, ActBind Bind, ActUndo Unreserve, ActBound PostBind, and ActPostFilter PostFilter, of a pod that no node
// has been chosen for.
const (
	ActReserve Act = iota + 1
	ActPrepare
	ActUndo
	ActBound
	ActBind
	ActPostFilter
)

// Perform has the plugins of a profile act. ID is that of the question (Consult) whose cycle it belongs to. Each is
// answered by a Performed, that to ActUndo when all that was under way has ended.
type Perform struct {
	ID            uint64
	Act           Act
	Shard         string
	SchedulerName string
	Pod           *state.Pod
	Node          string
	// Verdicts (ActPostFilter) are about all nodes, in no order.
	Verdicts []Verdict
}

// Verdict is why a node will not do. Resolvable: it might, if pods left.
type Verdict struct {
	Node, Plugin string
	Reasons      []string
	Resolvable   bool
}

// Performed is the answer to a Perform.
type Performed struct {
	ID  uint64
	Act Act
	// Later (ActReserve): there is something left to do before the bind.
	Later bool
	// Binds (ActReserve): plugins are to be asked to bind the pod. By (ActBind) is the one that has, empty if all leave
	// it to the binders.
	Binds bool
	By    string
	// Nominated (ActPostFilter) is the node that a plugin nominates the pod to, empty for none, Message what plugins
	// say. There is neither refusal nor error.
	Nominated, Message string
	// Refusal is that of a plugin, in its words; Err says that one has failed. With either, all that plugins had
	// reserved has been taken back.
	Refusal *Refusal
	Err     error
}

// Refusal is a plugin's no; Plugin may be empty.
type Refusal struct {
	Plugin  string
	Reasons []string
}

// Failed reports whether the plugins refused or failed.
func (p *Performed) Failed() bool { return p.Refusal != nil || p.Err != nil }

// MaxConsults is how many attempts of a shard wait for extenders at once: some, as most of the
// time goes into waiting; few, as an extender may have been written for a caller that asks
// about one pod after the other.
const MaxConsults = 8
