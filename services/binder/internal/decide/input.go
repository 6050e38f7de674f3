package decide

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is one thing that happened. The set is closed: the types of this file.
type Input interface{ input() }

// Cluster is what the core asks of an immutable snapshot of the facts.
type Cluster interface {
	Pod(uid string) (*state.Pod, bool)
	Node(uid string) (*state.Node, bool)
	NodeByName(name string) (*state.Node, bool)
	// Requested sums up the pods that stand on a node and have not ended.
	Requested(nodeName string) state.Resources
	// BudgetsOf are the disruption budgets that the eviction API asks about a pod; docs finds
	// what has been claimed from one, by its UID.
	BudgetsOf(pod *state.Pod, promises *ledger.View) []ledger.BudgetRoom
}

// FactsMoved replaces the core's picture of the cluster.
type FactsMoved struct {
	Cluster Cluster
	// Sequence is the fact log's position the picture stands for.
	Sequence uint64
	// Epoch is the fact epoch at Sequence.
	Epoch uint64
	// PodProgress is the resourceVersion up to which every fact about pods is in the
	// picture; without PodProgressKnown nothing may be concluded from a pod's absence.
	PodProgress      uint64
	PodProgressKnown bool
	// BudgetProgress is the same for disruption budgets; 0 while undefined.
	BudgetProgress uint64
	// Claims finds what the facts show of a claim to devices; nil if they show none. ClaimProgress
	// is PodProgress for these; 0 while undefined.
	Claims        func(namespace, name string) ledger.ClaimFact
	ClaimProgress uint64
	// Claim is a claim to devices as the facts show it, to be read only; nil if they do not.
	Claim func(namespace, name string) *resourcev1.ResourceClaim
	// Classes are all classes of devices, to be read only; nil if the facts show none.
	Classes func() []*resourcev1.DeviceClass
	// Exists reports whether the facts show the object that a key of the ledger is about: the node of
	// n/, the disruption budget of b/, the claim or pool of x/. Nil while nothing is known.
	Exists func(key string) bool
	// Replaced are earlier versions of pods that were and still are unbound and that this
	// step replaced: the evidence of what a decision based on them looked at.
	Replaced []*state.Pod
	// Rejected are the pods that this step shows turned away by their kubelet.
	Rejected []*state.Pod
	// Moved are the UIDs of the pods that this step changed; nil if any may have been.
	Moved []string
}

// LedgerMoved carries the node documents that changed in the binder's own ledger watch.
type LedgerMoved struct {
	// Revision: every document up to it is known.
	Revision int64
	Docs     []ledger.NodeDoc
	Deleted  []string // node UIDs
	// Reset: Docs are all there are.
	Reset bool
	// Batch is the same step as the ledger told it, with claims on budgets and plan records.
	Batch ledger.ViewBatch
}

// PartitionsChanged says which binder partitions this member holds from now on.
type PartitionsChanged struct{ Held []int32 }

// DecisionSeen is one record of the decision log.
type DecisionSeen struct{ Decision events.Decision }

// Tick lets time pass; nothing else makes a deadline due.
type Tick struct{}

// Drain stops the start of anything new; answers are still digested.
type Drain struct{}

// Result is how a call to the API server ended.
type Result uint8

const (
	// Done says it was carried out now.
	Done Result = iota + 1
	// AlreadyHere says the pod was already bound to this node; Pod is as read.
	AlreadyHere
	// Elsewhere says the pod is bound to another node; Pod is as read.
	Elsewhere
	// Gone says this incarnation of the pod does not exist any more.
	Gone
	// Moved says it was refused because the resourceVersion moved; Pod is as read after the refusal.
	Moved
	// Throttled says it was refused for now (429); for an eviction this is the budget's answer.
	Throttled
	// Refused says it was surely not carried out, and the same request would be refused again.
	Refused
	// Unknown says it may have been carried out, or may still be.
	Unknown
	// Waiting says that the pod's volumes or devices are asked for and not there yet. Nothing was bound.
	Waiting
	// ClaimMade says that the claim for the pod's resources is there, without devices. Nothing was bound.
	ClaimMade
)

// String is the word used in logs and metrics.
func (r Result) String() string {
	switch r {
	case Done:
		return "done"
	case AlreadyHere:
		return "already-here"
	case Elsewhere:
		return "elsewhere"
	case Gone:
		return "gone"
	case Moved:
		return "moved"
	case Throttled:
		return "throttled"
	case Refused:
		return "refused"
	case Waiting:
		return "waiting"
	case ClaimMade:
		return "claim-made"
	}
	return "unknown"
}

// Answered is the end of a call to the API server.
type Answered struct {
	Op     OpID
	Result Result
	// Pod as the API server returned it: after ReadPod and FencePod that were Done, and
	// with the results of Bind that say so.
	Pod *state.Pod
	// ResourceVersion of the pod after PatchCondition and Nominate, of the budget after ReadBudget.
	ResourceVersion uint64
	// ClaimVersion is the resourceVersion of claims to devices from which on facts show what a
	// FencePod has done to them; 0 for nothing.
	ClaimVersion uint64
	// Refused: the API server has refused the Binding, and what became of the pod is Unknown only because it could
	// not be read.
	Refused bool
	// Failed: what makes it Unknown is an error that the API server itself answers with (500), as for a webhook that
	// it cannot reach. Nothing may have happened, again and again.
	Failed bool
	// Made is the claim that is there after a Bind that was ClaimMade, with UID and resourceVersion.
	Made ledger.DevicePick
	// Problem is the sentence for people; empty when Done.
	Problem string
}

// Untaken takes an effect back that nothing has begun to carry out: Moot has found it moot, or its NotAfter is over.
type Untaken struct{ Op OpID }

// DocRead is the end of a ReadDoc. Doc is nil when there is none, or with a Problem.
type DocRead struct {
	Op      OpID
	Doc     *ledger.NodeDoc
	Problem string
}

// Transacted is the end of a Transact.
type Transacted struct {
	Op     OpID
	Result TxnOutcome
	// Revision of the store, when Applied; Current is the document as it stands, when Lost
	// (nil: it does not exist).
	Revision int64
	Current  *ledger.NodeDoc
	Problem  string
}

// Amended is the end of an Amend.
type Amended struct {
	Op     OpID
	Result TxnOutcome
	// KVs are the keys as put, when Applied, and those that were compared as they are now,
	// when Lost.
	KVs     []ledger.KV
	Problem string
}

// TxnOutcome is how a ledger transaction ended.
type TxnOutcome uint8

const (
	// Applied says all of it happened, at Revision.
	Applied TxnOutcome = iota + 1
	// Lost says a compare failed, nothing happened.
	Lost
	// TxnRefused says it was malformed, and surely nothing happened.
	TxnRefused
	// TxnUnknown asks to resubmit the identical transaction.
	TxnUnknown
)

// String is the word used in logs and metrics.
func (o TxnOutcome) String() string {
	switch o {
	case Applied:
		return "ok"
	case Lost:
		return "conflict"
	case TxnRefused:
		return "refused"
	}
	return "unknown"
}

func (FactsMoved) input()        {}
func (LedgerMoved) input()       {}
func (PartitionsChanged) input() {}
func (DecisionSeen) input()      {}
func (Tick) input()              {}
func (Drain) input()             {}
func (Answered) input()          {}
func (DocRead) input()           {}
func (Transacted) input()        {}
func (Amended) input()           {}
func (Untaken) input()           {}
