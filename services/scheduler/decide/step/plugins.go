package step

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Consult asks the custom plugins and the extenders of a profile about a pod; the answer comes back as an Advice
// with its ID. If Candidates is set, the question is about them instead of nodes (see consultvictims.go). Everything
// that it points to is shared and must not be changed.
type Consult struct {
	ID            uint64
	Shard         string
	SchedulerName string
	Pod           *state.Pod
	// GateOnly asks only whether the pod may be tried: the rules pass no node for it.
	GateOnly bool
	// Nodes are the nodes that the rules pass, in no order.
	Nodes []*state.Node
	// Cluster is all nodes, sorted by name, with the pods that count on them; nil for a profile without custom
	// plugins. An unchanged node is the same pointer as in other questions.
	Cluster []*state.NodeInfo
	// Candidates are nodes on which the pod fits once their victims are gone, with these victims; extenders answer
	// which of them are acceptable.
	Candidates []preempt.Candidate
}

// Advice is the answer to a Consult: the guidance of plugins on the pod as a whole, nil for none, and an opinion on
// each node, by name; for a question about candidates, those that are left. HeldBack: the pod must not be tried yet.
// Err ends the attempt.
type Advice struct {
	ID       uint64
	HeldBack *Refusal
	Guidance *placement.Guidance
	Opinions map[string]placement.Opinion
	// Candidates are the candidates on which extenders have left victims, possibly others than in the question.
	Candidates []preempt.Candidate
	Err        error
}

// PluginAct is an action of plugins for a pod and its node.
type PluginAct uint8

// The acts. ActReserve is upstream's Reserve, Permit and PreBindPreFlight; ActPrepare is the wait that Permit asked
// for, and PreBind; ActBind is Bind, ActUndo Unreserve and ActBound PostBind. ActPostFilter is PostFilter, for a pod
// without a node.
const (
	ActReserve PluginAct = iota + 1
	ActPrepare
	ActUndo
	ActBound
	ActBind
	ActPostFilter
)

// PluginRequest makes the plugins of a profile act. ID is the ID of the question (Consult) whose cycle it belongs to.
// Each is answered by a PluginResult; the answer to ActUndo comes when all actions in progress have ended.
type PluginRequest struct {
	ID            uint64
	Act           PluginAct
	Shard         string
	SchedulerName string
	Pod           *state.Pod
	Node          string
	// Verdicts (ActPostFilter) are about all nodes, in no order.
	Verdicts []Verdict
}

// Verdict is why a node is rejected. Resolvable: it might be accepted if pods left.
type Verdict struct {
	Node, Plugin string
	Reasons      []string
	Resolvable   bool
}

// PluginResult is the answer to a PluginRequest.
type PluginResult struct {
	ID  uint64
	Act PluginAct
	// Later (ActReserve): plugins have work left before the bind.
	Later bool
	// Binds (ActReserve): plugins must be asked to bind the pod. By (ActBind) is the plugin that has bound it, empty
	// if all plugins leave the bind to the binders.
	Binds bool
	By    string
	// Nominated (ActPostFilter) is the node that a plugin nominates for the pod, empty for none; Message is the text
	// of the plugins. In this case there is neither refusal nor error.
	Nominated, Message string
	// Nomination (ActPostFilter) is what becomes of an earlier nomination of the pod without Nominated.
	Nomination NominationFate
	// Refusal is the refusal of a plugin, in its words; Err reports that a plugin has failed. With either,
	// everything that plugins had reserved has been taken back.
	Refusal *Refusal
	Err     error
}

// NominationFate is what PostFilter plugins decide about an earlier nomination of a pod.
type NominationFate uint8

const (
	// NominationUndecided: no plugin has decided about it.
	NominationUndecided NominationFate = iota
	// NominationKept: it stays, because a plugin has failed or has ended the search for help without a result.
	NominationKept
	// NominationCleared: a plugin has cleared it.
	NominationCleared
)

// Refusal is a plugin's rejection of a pod or a node; Plugin may be empty.
type Refusal struct {
	Plugin  string
	Reasons []string
}

// Failed reports whether the plugins refused or failed.
func (p *PluginResult) Failed() bool { return p.Refusal != nil || p.Err != nil }

// MaxConsults is how many attempts of a shard wait for extenders at once: more than one, as most of the time is
// spent waiting; but few, as an extender may have been written for a caller that asks about one pod at a time.
const MaxConsults = 8
