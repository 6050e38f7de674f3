package effect

import (
	"iter"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// Input is one event. The set is closed: the types of this file.
type Input interface{ input() }

// Cluster is the core's access to an immutable snapshot of the facts.
type Cluster interface {
	Pod(uid string) (*state.Pod, bool)
	Node(uid string) (*state.Node, bool)
	NodeByName(name string) (*state.Node, bool)
	// Requested sums up the requests of the pods that are on a node and have not ended.
	Requested(nodeName string) resources.Resources
	// BudgetsOf returns the disruption budgets that the eviction API checks for a pod. promises shows what has been
	// claimed from each, by the budget's UID.
	BudgetsOf(pod *state.Pod, promises *replica.View) []txns.BudgetRoom
}

// FactsChanged replaces the core's view of the cluster.
type FactsChanged struct {
	Cluster Cluster
	// Sequence is the position in the fact log that the view reflects.
	Sequence uint64
	// Epoch is the fact epoch at Sequence.
	Epoch uint64
	// PodProgress is the resourceVersion up to which every fact about pods is in the view. Without PodProgressKnown
	// nothing may be concluded from a pod's absence.
	PodProgress      uint64
	PodProgressKnown bool
	// BudgetProgress is the same for disruption budgets; 0 while undefined.
	BudgetProgress uint64
	// Claims returns what the facts show of a device claim; nil if they show none. ClaimProgress is PodProgress for
	// these claims; 0 while undefined.
	Claims        func(namespace, name string) txns.DeviceClaimFact
	ClaimProgress uint64
	// Claim returns a device claim as the facts show it, read-only, or nil if they do not show it.
	Claim func(namespace, name string) *resourcev1.ResourceClaim
	// Classes returns all device classes, read-only; nil if the facts show none.
	Classes func() []*resourcev1.DeviceClass
	// Group returns a PodGroup, Groups all of them, and Members the members of one, read-only. They are nil while nothing
	// is known.
	Group   func(namespace, name string) *schedulingv1alpha2.PodGroup
	Groups  func() iter.Seq[*schedulingv1alpha2.PodGroup]
	Members func(namespace, name string) iter.Seq[*state.Pod]
	// Exists reports whether the facts show the object to which a key of the ledger belongs: the node of n/, the
	// disruption budget of b/, the claim or pool of x/. It is nil while nothing is known.
	Exists func(key string) bool
	// Replaced holds earlier versions of pods that were and still are unbound and that this step replaced: the
	// evidence of what a decision based on them saw.
	Replaced []*state.Pod
	// Rejected holds the pods that their kubelet has rejected, as first shown by this step.
	Rejected []*state.Pod
	// ChangedPods holds the UIDs of the pods that this step changed; nil if any pod may have changed.
	ChangedPods []string
	// Nodes counts the nodes that the facts show; nil while nothing is known.
	Nodes func() int
	// Marked holds the nodes whose marks for autoscalers this step changed, or all that have some if MarkedAll.
	Marked    []MarkedNode
	MarkedAll bool
}

// MarkedNode is a node with the note of its marks (state.Node.Marks), which is empty if it has none any more.
type MarkedNode struct{ UID, Name, Marks string }

// LedgerChanged carries one step of the binder's own ledger watch.
type LedgerChanged struct{ Batch replica.Batch }

// PartitionsChanged lists the binder partitions that this member holds from now on.
type PartitionsChanged struct{ Held []int32 }

// DecisionSeen is one record of the decision log.
type DecisionSeen struct{ Decision events.Decision }

// Tick advances the time; nothing else makes a deadline due.
type Tick struct{}

// Drain stops new work; answers are still processed.
type Drain struct{}

// Result is how a call to the API server ended.
type Result uint8

const (
	// Done means that the call was carried out now.
	Done Result = iota + 1
	// AlreadyHere means that the pod was already bound to this node; Pod is as read.
	AlreadyHere
	// Elsewhere means that the pod is bound to another node; Pod is as read.
	Elsewhere
	// Gone means that this incarnation of the pod does not exist any more.
	Gone
	// Conflict means that the call was refused because the resourceVersion had moved; Pod is as read after the refusal.
	Conflict
	// Throttled means that the call was refused for now (429); for an eviction this is the budget's answer.
	Throttled
	// Refused means that the call was certainly not carried out, and that the same request would be refused again.
	Refused
	// Unknown means that the call may have been carried out, or may still be.
	Unknown
	// Waiting means that the pod's volumes or devices were requested and are not ready yet. Nothing was bound.
	Waiting
	// ClaimMade means that the claim for the pod's resources exists, without devices. Nothing was bound.
	ClaimMade
)

// String returns the label used in logs and metrics.
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
	case Conflict:
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
	// Pod is the pod as the API server returned it: after ReadPod and FencePod with Done, and with the results of
	// Bind and PatchCondition that say so.
	Pod *state.Pod
	// ResourceVersion is that of the pod after PatchCondition, Nominate and Announce, and that of the budget after
	// ReadBudget.
	ResourceVersion uint64
	// ClaimVersion is the resourceVersion of device claims from which on facts show what a FencePod has changed in
	// them; 0 for nothing.
	ClaimVersion uint64
	// Refused means that the API server has refused the Binding, and the result is Unknown only because the pod could
	// not be read afterwards.
	Refused bool
	// Failed means that the result is Unknown because of an error of the API server itself (500), for instance when
	// it cannot reach a webhook. Possibly nothing happens, however often the call is repeated.
	Failed bool
	// Intercepted means that an eviction was refused in a way in which another controller takes it on: a webhook has
	// said so, or denied it as a failure, or has not answered, or a disruption budget allows nothing. Whether one does
	// depends on the pod (state.Pod.EvictsByRequest).
	Intercepted bool
	// Conditions means that a Bind is about allocated devices with binding conditions, whether they hold already or not.
	Conditions bool
	// Made is the claim that exists after a Bind with ClaimMade, with UID and resourceVersion.
	Made ledger.DevicePick
	// Problem is a sentence for people; empty when Done.
	Problem string
}

// NotStarted withdraws an effect that no worker has begun to carry out: Moot has found it moot, or its NotAfter has
// passed.
type NotStarted struct{ Op OpID }

// DocRead is the end of a ReadDoc. Doc is nil if there is no document, or with a Problem.
type DocRead struct {
	Op      OpID
	Doc     *ledger.NodeDoc
	Problem string
}

// Transacted is the end of a Transact.
type Transacted struct {
	Op     OpID
	Result TxnOutcome
	// Revision is that of the store, when Applied. Current is the current document, when Lost (nil: it does not
	// exist).
	Revision int64
	Current  *ledger.NodeDoc
	Problem  string
}

// Amended is the end of an Amend.
type Amended struct {
	Op     OpID
	Result TxnOutcome
	// KVs are the keys as put, when Applied, and the current state of the compared keys, when Lost.
	KVs     []ledger.KV
	Problem string
}

// TxnOutcome is how a ledger transaction ended.
type TxnOutcome uint8

const (
	// Applied means that all of it happened, at Revision.
	Applied TxnOutcome = iota + 1
	// Lost means that a compare failed and nothing happened.
	Lost
	// TxnRefused means that the transaction was malformed and certainly nothing happened.
	TxnRefused
	// TxnUnknown means that the identical transaction must be resubmitted.
	TxnUnknown
)

// String returns the label used in logs and metrics.
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

func (FactsChanged) input()      {}
func (LedgerChanged) input()     {}
func (PartitionsChanged) input() {}
func (DecisionSeen) input()      {}
func (Tick) input()              {}
func (Drain) input()             {}
func (Answered) input()          {}
func (DocRead) input()           {}
func (Transacted) input()        {}
func (Amended) input()           {}
func (NotStarted) input()        {}
