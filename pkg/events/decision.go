package events

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// DecisionKind names what a Decision reports. The set is closed within one version.
type DecisionKind string

const (
	// DecisionPlaced: a shard committed a reservation. It is a hint for the binder, which acts only on what its own
	// ledger watch shows.
	DecisionPlaced DecisionKind = "placed"
	// DecisionNominated: a shard holds a place on NodeName for a pod that fits nowhere yet, and has claimed the
	// pods that must be evicted for it; Message is why it fits nowhere. It is a hint: the ledger determines what is
	// held. It is used for the pod's condition, mirrors and human readers.
	DecisionNominated DecisionKind = "nominated"
	// DecisionWithdrawn: a place that was held for a pod has been given up or taken by a pod of higher priority,
	// and the pod is tried again; Message is the reason. For human readers: the queue sees it in the ledger.
	DecisionWithdrawn DecisionKind = "withdrawn"
	// DecisionLost: the ledger refused a shard's reservation on NodeName, because another member had changed what
	// it was decided on. Message names that change, or is LostAbandoned if the shard saw the change before it sent
	// the transaction. The attempt continues. For human readers, and for replays of decisions.
	DecisionLost DecisionKind = "lost"
	// DecisionUnplaceable: no node fits now. The queue parks the pod by cause, and the binder writes the condition
	// and the event.
	DecisionUnplaceable DecisionKind = "unplaceable"
	// DecisionHeldBack: a plugin does not want the pod tried yet (upstream's PreEnqueue). The queue parks it by
	// that plugin. No binder writes a condition, as the pod is not waiting for nodes.
	DecisionHeldBack DecisionKind = "held-back"
	// DecisionFailed: the attempt ended in an error (reason SchedulerError); the queue
	// backs the pod off.
	DecisionFailed DecisionKind = "failed"
	// DecisionEvict: the descheduler asks the binder to evict a pod.
	DecisionEvict DecisionKind = "evict"
	// DecisionBound: the binder saw the bind succeed.
	DecisionBound DecisionKind = "bound"
	// DecisionReleased: the binder took a reservation back (the fence is complete); the pod should be tried again.
	DecisionReleased DecisionKind = "released"
	// DecisionFenceRefused: the API server repeatedly refuses the write by which the binder takes a reservation
	// back; Message is the API server's message. It is reported again as long as that lasts, until a
	// DecisionReleased or the end of the pod. For human readers.
	DecisionFenceRefused DecisionKind = "fence-refused"
	// DecisionCondition: the binder wrote the pod's condition, or found nothing to change. PodResourceVersion is
	// the pod's resourceVersion afterwards.
	DecisionCondition DecisionKind = "condition"
	// DecisionEvicted and DecisionEvictRefused report the outcome of a DecisionEvict.
	DecisionEvicted      DecisionKind = "evicted"
	DecisionEvictRefused DecisionKind = "evict-refused"
	// DecisionEvictBackground: the API server refused the eviction of a pod that is annotated
	// (state.AnnotationRequestEvictOnly), because another controller makes the pod leave in its own way. The binder
	// waits, and reports one of the outcomes above later. Message is the API server's. It is reported again by a
	// binder that takes the wait over.
	DecisionEvictBackground DecisionKind = "evict-background"
	// DecisionUngate: the queue asks the binder to remove QuotaGate from a pod.
	DecisionUngate DecisionKind = "ungate"
	// DecisionQuarantined: the queue stopped offering a pod whose attempts repeatedly end without an answer, or
	// does not offer a pod that is too large for the log (TooLargeGate). The binder writes the condition and the
	// event. Actor is the queue.
	DecisionQuarantined DecisionKind = "quarantined"
	// DecisionReturned: the descheduler found a replacement on NodeName, the node from which the replaced pod had
	// been moved away; Message reports that. No pod of Owner is moved for a while.
	DecisionReturned DecisionKind = "returned"
	// DecisionRejected: the kubelet of NodeName rejected a bound pod; Message is the kubelet's message. Actor is
	// the binder that saw it. For human readers: shards see it in the facts.
	DecisionRejected DecisionKind = "rejected"
)

// MaxWithheld bounds Decision.Withheld. The nodes are listed so that all of them can be marked; a part of them would be
// of no use.
const MaxWithheld = 16

// LostAbandoned is the Message of a DecisionLost that was not a race: the transaction was never sent.
const LostAbandoned = "abandoned"

// AttemptAnnotation on a bound pod is the token of the attempt that placed it. A pod with the annotation was placed
// by Berth, whatever has happened to it since.
const AttemptAnnotation = "berth.dev/attempt"

// QuotaGate is the scheduling gate of pods that wait until the budget of their namespace has room for them. The
// queue decides when to remove it, and the binder removes it.
const QuotaGate = "berth.dev/quota"

// UngateFor is how long binders try to remove a gate at the queue's request (DecisionUngate), counted from when
// they have read that request. After it the queue asks again.
const UngateFor = 30 * time.Second

// TooLargeGate is the scheduling gate that the facts give a pod which is too large for the log. In the API server
// no such pod has it. Apart from the gate, the facts keep of the pod what counts on a node, see reduce.Reduce.
const TooLargeGate = "berth.dev/too-large"

// PodRef identifies one incarnation of a pod.
type PodRef struct {
	UID, Namespace, Name string
}

// Decision is one decision or action of a service about one pod. Its subject is decisions.<bucket of the pod's
// uid>.<kind>.
//
//nolint:structsize // a record of the log, read field by field; grouping would only rename them
type Decision struct {
	Kind DecisionKind
	Pod  PodRef
	// SchedulerName is the profile's; it is the reportingController of the events.
	SchedulerName string
	// Actor is the member that wrote this: "scheduler-…", "binder-…", "descheduler-…".
	Actor string
	// Attempt counts this pod's attempts from 1. Token is the attempt token in hex (16 digits), which is the same
	// in offer, ledger entry, Binding annotation and outcome.
	Attempt int32
	Token   string
	// FactSequence and LedgerRevision are the positions that the decision had applied (from which it was computed).
	// For DecisionPlaced, LedgerRevision is that of the reservation; for DecisionEvict that of T12, and 0 if no
	// place is kept for the replacement.
	FactSequence   uint64
	LedgerRevision int64
	// FactEpoch is the fact epoch at FactSequence (unplaceable, ungate, evict; 0 means not known): the log of facts
	// can lose its end, and the facts that are published again then have the same sequences.
	FactEpoch uint64
	// PodResourceVersion: see DecisionCondition; for other kinds it is the version that the decision used.
	PodResourceVersion uint64
	// NodeUID and NodeName are the node concerned (placed, nominated, withdrawn, bound, released, evict*).
	NodeUID, NodeName string
	// Message is a sentence for human readers; for DecisionUnplaceable it is the whole text in upstream's grammar
	// (0/N nodes are available: …).
	Message string
	// Plugins are the names of plugins that rejected nodes (unplaceable), sorted, or of the plugin that has bound
	// the pod (placed).
	Plugins []string
	// RetryAfter is how long after the decision a condition ends that kept the pod from being placed and whose end
	// no event reports (unplaceable); 0 if there is no such condition. In whole milliseconds.
	RetryAfter time.Duration
	// Reasons counts nodes by reason (unplaceable).
	Reasons map[string]int32
	// NodesTotal and NodesFeasible count the nodes that the attempt examined.
	NodesTotal, NodesFeasible int32
	// Withheld are the names of the nodes that would take the pod but for Berth: pods avoid them for a while, or a place
	// there is kept for another pod (unplaceable, failed), sorted. It is empty if there are more than MaxWithheld. For
	// the binder's marks on nodes: no decision about a pod reads it.
	Withheld []string
	// Seed is the seed that broke the ties of this attempt.
	Seed uint64
	// Strategy names the descheduler plugin (evict*).
	Strategy string
	// GracePeriodSeconds overrides the pod's own (evict*); nil leaves it, 0 kills at once.
	GracePeriodSeconds *int64
	// Owner is the UID of the pod's controller, and Landing the name of the node where its
	// replacement is expected (evict); both may be empty.
	Owner, Landing string
	// Youngest is when the youngest of the owner's pods that the decision knew of was created, by the API server's
	// clock and in whole seconds (evict); zero if it is not recorded. A pod created later is a replacement.
	Youngest time.Time
	// EventOnFailure asks for a Kubernetes event if the eviction is refused (evict).
	EventOnFailure bool
	// NotAfter is when the order expires, by the clock of the member that gives it, to the millisecond (evict): no
	// binder begins the eviction later. It is zero if none is given, as in those of earlier versions.
	NotAfter time.Time
	// StaleNomination is the node name in the pod's nominatedNodeName that leads nowhere by this decision, so that the
	// binder clears the field (unplaceable, failed, quarantined); empty if the pod has none, or if it stays.
	StaleNomination string
	// TraceParent is the W3C traceparent of the span that decided, or empty.
	TraceParent string
	// Evidence is the input of a shard's decision and the alternatives it weighed (placed, nominated, unplaceable,
	// failed, lost); nil if no shard examined nodes. For human readers, and for replays: no service decides by it.
	Evidence *evidence.Evidence
}

// SequencedDecision is a Decision with its position in the log.
type SequencedDecision struct {
	Sequence uint64
	Decision
}
