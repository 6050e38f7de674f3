package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Annotations the binder writes.
const (
	// AnnotationAttempt on a Binding names the attempt token; the API server copies it to
	// the pod, so that the bind names its reservation.
	AnnotationAttempt = events.AttemptAnnotation
	// AnnotationFence is the real change of a fence: "<token>-<nonce>", never the same
	// value twice, because a patch that changes nothing moves no resourceVersion.
	AnnotationFence = "berth.dev/fence"
)

// Conditions that the binder writes where the API server takes no such annotations.
const (
	// ConditionAttempt has the token and the node in its message, see state.AttemptCondition.
	ConditionAttempt = state.AttemptCondition
	// ConditionFence has the value of AnnotationFence in its message.
	ConditionFence corev1.PodConditionType = AnnotationFence
)

// OpID names one effect under way; its answer carries it back. 0 is none.
type OpID uint64

// Effect is something the core wants done. The set is closed: the types of this file.
// Those with an Op must be answered exactly once.
type Effect interface{ effect() }

// Bind posts a Binding, when the volumes and devices of the pod are there. Answered by Answered: Waiting, if
// they are not yet.
type Bind struct {
	Op                OpID
	Pod               events.PodRef
	NodeUID, NodeName string
	// ResourceVersion is the precondition beside the UID.
	ResourceVersion uint64
	Token           ledger.Token
	// Full: the pod's annotations have no room at ResourceVersion. ConditionAttempt names the token instead, and is
	// written before.
	Full          bool
	SchedulerName string
	Attempt       int32
	TraceParent   string
	// Volumes is what has to be done first; nil for nearly all pods.
	Volumes *VolumeWork
	// Devices is the same for claims to devices, done after the volumes.
	Devices *DeviceWork
}

// DeviceWork is what has to be written to the claims to devices of a pod before it is bound.
type DeviceWork struct {
	Picks []ledger.DevicePick
	// Known are claims, by name, that need not be read first: the facts show the version that the
	// decision used. A write is refused if it is not the present one.
	Known map[string]*resourcev1.ResourceClaim
	// NodeLabels are those of the node, on which devices that a claim has already must be of use.
	NodeLabels map[string]string
	// Classes have the configuration that picks leave out, besides the claims; nil if none does.
	Classes []*resourcev1.DeviceClass
}

// VolumeWork is what has to be done about the claims of a pod before it is bound.
type VolumeWork struct {
	Picks []ledger.VolumePick
	// NodeLabels are those of the node, which the volumes that are made must suit.
	NodeLabels map[string]string
	// Written: this binder has seen it all written, so that what is not there any more has been
	// taken back by who was to carry it out.
	Written bool
}

// ReadPod gets one pod. Answered by Answered: Done with Pod, Gone, Unknown.
type ReadPod struct {
	Op  OpID
	Pod events.PodRef
}

// ReadDoc reads one node's document linearizably. Answered by DocRead.
type ReadDoc struct {
	Op      OpID
	NodeUID string
}

// Transact runs a ledger transaction on one node's document. Answered by Transacted.
type Transact struct {
	Op      OpID
	NodeUID string
	Txn     ledger.Txn
	// Why is a short word for logs and metrics: "name-claim", "fence-mark", "fence-release", "hand-over".
	Why string
}

// Amend runs a ledger transaction on any documents. Answered by Amended.
type Amend struct {
	Op  OpID
	Txn ledger.Txn
	// Why is a short word for logs and metrics: "evict-claim", "evict-mark", "evict-take", "evict-failed",
	// "budget-settle", "hand-over", "sweep", "collect", "move-abort", "plan-abort", "plan-drop".
	Why string
	// Idle: nothing waits for it.
	Idle bool
}

// FencePod really changes the pod: it sets AnnotationFence, or ConditionFence, to Value, and takes ConditionAttempt
// away, with UID as the precondition. Then it settles Claims, those to devices that the reservation has, with what they
// are to get: none of them gets that any more, and what they have got they give back unless the pod
// turns out to be bound to NodeName. Answered by Answered: Done with Pod as changed, Gone (both with
// ClaimVersion), Refused, Unknown.
type FencePod struct {
	Op       OpID
	Pod      events.PodRef
	NodeName string
	Value    string
	Claims   []ledger.DevicePick
}

// PatchCondition sets one condition of the pod's status, with UID as the precondition.
// Answered by Answered: Done with ResourceVersion, Gone, Refused, Unknown.
type PatchCondition struct {
	Op        OpID
	Pod       events.PodRef
	Condition corev1.PodCondition
	// NominatedNodeName is written along with it; empty leaves that field alone.
	NominatedNodeName string
}

// RemoveGate removes one scheduling gate of the pod, if it has it, with UID as the
// precondition. Answered by Answered: Done, Gone, Refused, Unknown.
type RemoveGate struct {
	Op   OpID
	Pod  events.PodRef
	Gate string
	// NotAfter is as in Evict.
	NotAfter time.Time
}

// Nominate writes status.nominatedNodeName of the pod, with UID as the precondition.
// Answered by Answered: Done with ResourceVersion, Gone, Refused, Unknown.
type Nominate struct {
	Op  OpID
	Pod events.PodRef
	// NodeName is empty to clear it.
	NodeName string
}

// ReadBudget gets a disruption budget. Answered by Answered: Done with ResourceVersion,
// Gone, Unknown.
type ReadBudget struct {
	Op              OpID
	Namespace, Name string
}

// Evict posts an Eviction with UID as the precondition. Answered by Answered: Done, Gone,
// Throttled (a budget says no), Refused, Unknown.
type Evict struct {
	Op     OpID
	Pod    events.PodRef
	DryRun bool
	// Delete: the pod is deleted, and no budget is asked.
	Delete bool
	// GracePeriodSeconds overrides the pod's own when not nil.
	GracePeriodSeconds *int64
	// Strategy and TraceParent are the asking decision's.
	Strategy, TraceParent string
	// For is the UID of the pod that needs the place, empty for none that is known.
	For string
	// NotAfter is when the call must have ended, by this binder's clock; zero for a dry run and for a pod that has
	// ended. One that would begin later is not sent, and answered by Untaken.
	NotAfter time.Time
}

// Publish appends a decision to the log. Not answered.
type Publish struct{ Decision events.Decision }

// Report emits a Kubernetes event about the pod. Not answered; may be lost.
type Report struct {
	Pod events.PodRef
	// SchedulerName is in whose name it is told.
	SchedulerName        string
	Type, Reason, Action string
	Note                 string
	// Related is another pod that the event is about, if any.
	Related events.PodRef
	// Once: the pod has it once in its life, so that it never becomes a series.
	Once bool
}

// Rejected tells that a kubelet turned a bound pod away. Not answered.
type Rejected struct {
	Pod              events.PodRef
	NodeName, Reason string
}

// Fault is something that should not happen: the core met a value it cannot work with, and
// leaves that piece of work for later. Not answered.
type Fault struct {
	What string
	Err  error
}

// Stop ends the binder: its picture of the ledger is not whole any more, and whatever it did by that might
// contradict a promise. It is the only effect of its step and of all steps after it. Not answered.
type Stop struct{ Err error }

func (Stop) effect()           {}
func (Fault) effect()          {}
func (Rejected) effect()       {}
func (Bind) effect()           {}
func (ReadPod) effect()        {}
func (ReadDoc) effect()        {}
func (Transact) effect()       {}
func (FencePod) effect()       {}
func (PatchCondition) effect() {}
func (RemoveGate) effect()     {}
func (Evict) effect()          {}
func (Amend) effect()          {}
func (Nominate) effect()       {}
func (ReadBudget) effect()     {}
func (Publish) effect()        {}
func (Report) effect()         {}
