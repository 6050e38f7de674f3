package effect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// These are the annotations that the binder writes.
const (
	// AnnotationAttempt on a Binding names the attempt token. The API server copies it to the pod, so that the bind
	// names its reservation.
	AnnotationAttempt = events.AttemptAnnotation
	// AnnotationFence is the real change of a fence: "<token>-<nonce>", never the same value twice, because a patch
	// that changes nothing does not move the resourceVersion.
	AnnotationFence = "berth.dev/fence"
)

// These are the conditions that the binder writes where the API server accepts no such annotations.
const (
	// ConditionAttempt has the token and the node in its message; see strip.AttemptCondition.
	ConditionAttempt = strip.AttemptCondition
	// ConditionFence has the value of AnnotationFence in its message.
	ConditionFence corev1.PodConditionType = AnnotationFence
)

// OpID identifies one effect in flight; its answer carries the same OpID. 0 is none.
type OpID uint64

// Effect is something that the core requests. The set is closed: the types of this file. Those with an Op must be
// answered exactly once.
type Effect interface{ effect() }

// Bind posts a Binding once the volumes and devices of the pod are ready. It is answered by Answered, with Waiting if
// they are not ready yet.
type Bind struct {
	Op                OpID
	Pod               events.PodRef
	NodeUID, NodeName string
	// ResourceVersion is a precondition, in addition to the UID.
	ResourceVersion uint64
	Token           ledger.Token
	// AnnotationsFull means that the pod's annotations have no room at ResourceVersion. ConditionAttempt names the token
	// instead, and is written before the Binding.
	AnnotationsFull bool
	SchedulerName   string
	Attempt         int32
	TraceParent     string
	// Volumes is the work on volumes that must be done first; nil for nearly all pods.
	Volumes *VolumeWork
	// Devices is the same for claims to devices, done after the volumes.
	Devices *DeviceWork
}

// DeviceWork lists the writes to the device claims of a pod that must precede its bind.
type DeviceWork struct {
	Picks []ledger.DevicePick
	// Known holds claims, by name, that need not be read first, because the facts show the version that the decision
	// used. A write is refused if that is not the current one.
	Known map[string]*resourcev1.ResourceClaim
	// NodeLabels are the labels of the node, on which devices that a claim already has must be usable.
	NodeLabels map[string]string
	// Classes hold the configuration that picks leave out, in addition to the claims; nil if none does.
	Classes []*resourcev1.DeviceClass
}

// VolumeWork lists the writes for the volume claims of a pod that must precede its bind.
type VolumeWork struct {
	Picks []ledger.VolumePick
	// NodeLabels are the labels of the node, which newly created volumes must suit.
	NodeLabels map[string]string
	// Written means that this binder has seen all of it written, so that anything missing has since been undone by
	// the controller responsible for it.
	Written bool
}

// ReadPod reads one pod. It is answered by Answered: Done with Pod, Gone, Unknown.
type ReadPod struct {
	Op  OpID
	Pod events.PodRef
}

// ReadDoc reads one node's document linearizably. It is answered by DocRead.
type ReadDoc struct {
	Op      OpID
	NodeUID string
}

// Transact runs a ledger transaction on one node's document. It is answered by Transacted.
type Transact struct {
	Op      OpID
	NodeUID string
	Txn     ledger.Txn
	// Why is a short label for logs and metrics: "name-claim", "fence-mark", "fence-release".
	Why string
}

// Amend runs a ledger transaction on any documents. It is answered by Amended.
type Amend struct {
	Op  OpID
	Txn ledger.Txn
	// Why is a short label for logs and metrics: "evict-claim", "evict-mark", "evict-take", "evict-failed",
	// "budget-settle", "hand-over", "sweep", "collect", "move-abort", "plan-abort", "plan-drop".
	Why string
	// Idle means that nothing waits for it.
	Idle bool
}

// FencePod makes a real change to the pod: it sets AnnotationFence, or ConditionFence, to Value, deletes
// ConditionAttempt, and clears status.nominatedNodeName, with UID as the precondition. Then it settles Claims, the
// reservation's device claims with the devices they were to get: none of them gets these any more, and what they have
// got is given back unless the pod turns out to be bound to NodeName. It is answered by Answered: Done with Pod as
// changed, Gone (both with ClaimVersion), Refused, Unknown.
type FencePod struct {
	Op       OpID
	Pod      events.PodRef
	NodeName string
	Value    string
	Claims   []ledger.DevicePick
}

// PatchCondition sets one condition of the pod's status, with UID as the precondition. It is answered by Answered:
// Done with ResourceVersion, Gone, Conflict with Pod (only with a ResourceVersion), Refused, Unknown; or by NotStarted
// if it was not begun.
type PatchCondition struct {
	Op        OpID
	Pod       events.PodRef
	Condition corev1.PodCondition
	// NominatedNodeName is written in the same patch; empty leaves that field unchanged, or clears it with
	// ClearNomination.
	NominatedNodeName string
	ClearNomination   bool
	// ResourceVersion is another precondition, of a patch with ClearNomination; 0 for none.
	ResourceVersion uint64
}

// RemoveGate removes one scheduling gate of the pod, if present, with UID as the precondition. It is answered by
// Answered: Done, Gone, Refused, Unknown; or by NotStarted if it was not begun.
type RemoveGate struct {
	Op   OpID
	Pod  events.PodRef
	Gate string
	// NotAfter is as in Evict.
	NotAfter time.Time
}

// Nominate writes status.nominatedNodeName of the pod, with UID as the precondition. It is answered by Answered: Done
// with ResourceVersion, Gone, Refused, Unknown.
type Nominate struct {
	Op  OpID
	Pod events.PodRef
	// NodeName is empty to clear the field.
	NodeName string
}

// Announce writes status.nominatedNodeName of a pod that has a reservation on NodeName, before its volumes and devices
// are prepared. UID and ResourceVersion are preconditions, as of a Bind, which is to follow. It is answered by
// Answered: Done with ResourceVersion; Conflict, AlreadyHere, Elsewhere and Gone as after a Bind; Refused, Unknown.
type Announce struct {
	Op              OpID
	Pod             events.PodRef
	NodeName        string
	ResourceVersion uint64
}

// ReadBudget reads a disruption budget. It is answered by Answered: Done with ResourceVersion, Gone, Unknown.
type ReadBudget struct {
	Op              OpID
	Namespace, Name string
}

// Evict posts an Eviction with UID as the precondition. It is answered by Answered: Done, Gone, Throttled (a budget
// forbids it), Refused, Unknown; or by NotStarted if it was not begun.
type Evict struct {
	Op     OpID
	Pod    events.PodRef
	DryRun bool
	// Delete means that the pod is deleted, without a check of budgets. Request means that the eviction can only be
	// requested (state.Pod.EvictsByRequest).
	Delete, Request bool
	// GracePeriodSeconds overrides the pod's own grace period when not nil.
	GracePeriodSeconds *int64
	// Strategy and TraceParent are those of the decision that requested the eviction.
	Strategy, TraceParent string
	// Reason and RequestedBy are the annotations of the Eviction that show to webhooks and to the API server's audit
	// log why it is created, and for whom. A deletion has none.
	Reason, RequestedBy string
	// Preemptor is the UID of the pod that needs the place, empty if none is known.
	Preemptor string
	// NotAfter is when the call must have ended, by this binder's clock; zero for a dry run and for a pod that has
	// ended. A call that would begin later is not sent, and is answered by NotStarted.
	NotAfter time.Time
}

// MarkNode gives a node exactly these marks for cluster autoscalers, with UID and resourceVersion as preconditions of
// the write. It is answered by Answered: Done, Gone, Refused, Unknown.
type MarkNode struct {
	Op                OpID
	NodeUID, NodeName string
	Marks             nodemark.Marks
}

// PatchGroup sets one condition of a PodGroup's status, with UID and ResourceVersion as the preconditions. It is
// answered by Answered: Done, Gone (also for another version), Refused, Unknown.
type PatchGroup struct {
	Op                   OpID
	Namespace, Name, UID string
	ResourceVersion      string
	Condition            metav1.Condition
}

// Publish appends a decision to the log. It is not answered.
type Publish struct{ Decision events.Decision }

// Report emits a Kubernetes event about the pod. It is not answered and may be lost.
type Report struct {
	Pod events.PodRef
	// SchedulerName is the scheduler on whose behalf the event is emitted.
	SchedulerName        string
	Type, Reason, Action string
	Note                 string
	// Related is another pod that the event is about, if any.
	Related events.PodRef
	// Once means that the pod has this event once in its life, so that it never becomes a series. Only the events of
	// successful binds have it.
	Once bool
	// Workload is the pod's controller, with which an event that has Once may be counted; nil if the pod has none, or
	// the facts do not show it. It belongs to the facts, and is not changed.
	Workload *metav1.OwnerReference
}

// Rejected reports that a kubelet rejected a bound pod. It is not answered.
type Rejected struct {
	Pod              events.PodRef
	NodeName, Reason string
}

// Fault reports something that should not happen: the core met a value it cannot work with, and leaves that piece of
// work for later. It is not answered.
type Fault struct {
	What string
	Err  error
}

// Stop ends the binder: its view of the ledger is no longer complete, and actions based on it might contradict a
// promise. It is the only effect of its step and of all later steps. It is not answered.
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
func (MarkNode) effect()       {}
func (PatchGroup) effect()     {}
func (Nominate) effect()       {}
func (Announce) effect()       {}
func (ReadBudget) effect()     {}
func (Publish) effect()        {}
func (Report) effect()         {}
