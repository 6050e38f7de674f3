package events

import "time"

// DecisionKind names what a Decision reports. The set is closed.
type DecisionKind string

const (
	// DecisionPlaced: a shard committed a reservation; a hint for the binder, which acts
	// only on what its own ledger watch shows.
	DecisionPlaced DecisionKind = "placed"
	// DecisionNominated: a shard holds a place on NodeName for a pod that fits nowhere yet, and
	// has claimed what must go for it; Message is why it fits nowhere. A hint: the ledger says
	// what is held. For the pod's condition, mirrors and people.
	DecisionNominated DecisionKind = "nominated"
	// DecisionWithdrawn: a place that was held for a pod has been given up or taken by a more
	// important one, and the pod is tried again; Message says why. For people: the queue sees
	// it in the ledger.
	DecisionWithdrawn DecisionKind = "withdrawn"
	// DecisionLost: the ledger refused a shard's reservation on NodeName, because somebody else
	// had changed what it was decided on; Message says what that was, or LostAbandoned, if the
	// shard saw the change before it asked. The attempt goes on. For people, and for whoever makes
	// decisions again.
	DecisionLost DecisionKind = "lost"
	// DecisionUnplaceable: no node fits now. The queue parks the pod by cause, the binder
	// writes the condition and the event.
	DecisionUnplaceable DecisionKind = "unplaceable"
	// DecisionHeldBack: a plugin does not want the pod tried yet (upstream's PreEnqueue). The queue parks it
	// by that plugin; nobody writes a condition, as nodes are not what it waits for.
	DecisionHeldBack DecisionKind = "held-back"
	// DecisionFailed: the attempt ended in an error (reason SchedulerError); the queue
	// backs the pod off.
	DecisionFailed DecisionKind = "failed"
	// DecisionEvict: the descheduler asks the binder to evict a pod.
	DecisionEvict DecisionKind = "evict"
	// DecisionBound: the binder saw the bind succeed.
	DecisionBound DecisionKind = "bound"
	// DecisionReleased: the binder took a reservation back (fence complete); the pod
	// should be tried again.
	DecisionReleased DecisionKind = "released"
	// DecisionFenceRefused: the API server refuses, again and again, what the binder has to write to
	// take a reservation back; Message is what it says. It is told again while that lasts, until a
	// DecisionReleased or the end of the pod. For people.
	DecisionFenceRefused DecisionKind = "fence-refused"
	// DecisionCondition: the binder wrote the pod's condition, or found nothing to change;
	// PodResourceVersion is the pod's resourceVersion afterwards.
	DecisionCondition DecisionKind = "condition"
	// DecisionEvicted and DecisionEvictRefused: what became of a DecisionEvict.
	DecisionEvicted      DecisionKind = "evicted"
	DecisionEvictRefused DecisionKind = "evict-refused"
	// DecisionUngate: the queue asks the binder to remove QuotaGate from a pod.
	DecisionUngate DecisionKind = "ungate"
	// DecisionQuarantined: the queue stopped offering a pod whose attempts keep ending without
	// an answer, or does not offer one that is too large for the log (TooLargeGate); the binder writes the condition and
	// the event. Actor is the queue.
	DecisionQuarantined DecisionKind = "quarantined"
	// DecisionReturned: the descheduler found a pod on NodeName, which the pod that it replaces had
	// been moved away from; Message says so. No pod of Owner is moved for a while.
	DecisionReturned DecisionKind = "returned"
	// DecisionRejected: the kubelet of NodeName turned a bound pod away; Message is what it
	// says. Actor is the binder that saw it. For people: shards see it in the facts.
	DecisionRejected DecisionKind = "rejected"
)

// LostAbandoned is the Message of a DecisionLost that was no race: the choice was never sent.
const LostAbandoned = "abandoned"

// AttemptAnnotation on a bound pod is the token of the attempt that placed it: what has it
// was placed by Berth, whatever has happened to it since.
const AttemptAnnotation = "berth.dev/attempt"

// QuotaGate is the scheduling gate of pods that wait until the budget of their namespace has
// room for them. The queue decides when, the binder removes it.
const QuotaGate = "berth.dev/quota"

// UngateFor is how long binders try to remove a gate that the queue has asked them to (DecisionUngate), counted from
// when they have read that. After it the queue asks again.
const UngateFor = 30 * time.Second

// TooLargeGate is the scheduling gate that the facts give a pod which is too large for the log. The API server
// has no such
// pod with it. What the facts say of the pod beside is what counts on a node, see state.Reduce.
const TooLargeGate = "berth.dev/too-large"

// PodRef identifies one incarnation of a pod.
type PodRef struct {
	UID, Namespace, Name string
}

// Decision is one thing a service decided or did about one pod. Subject
// decisions.<bucket of the pod's uid>.<kind>.
//
//nolint:structsize // a record of the log, read field by field; grouping would only rename them
type Decision struct {
	Kind DecisionKind
	Pod  PodRef
	// SchedulerName is the profile's; reportingController of the events.
	SchedulerName string
	// Actor is the member that wrote this: "scheduler-…", "binder-…", "descheduler-…".
	Actor string
	// Attempt counts this pod's attempts from 1. Token is the attempt token in hex (16
	// digits), the same in offer, ledger entry, Binding annotation and outcome.
	Attempt int32
	Token   string
	// FactSequence and LedgerRevision are what the decision had applied (what it was
	// computed from); for DecisionPlaced, LedgerRevision is that of the reservation, for
	// DecisionEvict that of T12, and 0 if no place is kept for the replacement.
	FactSequence   uint64
	LedgerRevision int64
	// FactEpoch is the fact epoch at FactSequence (unplaceable, ungate, evict; 0 is not known): the log of
	// facts can lose its end, and what is told anew then has the same numbers.
	FactEpoch uint64
	// PodResourceVersion: see DecisionCondition; for others the one the decision used.
	PodResourceVersion uint64
	// NodeUID and NodeName: where (placed, nominated, withdrawn, bound, released, evict*).
	NodeUID, NodeName string
	// Message is the human sentence: for DecisionUnplaceable the whole text in upstream's
	// grammar (0/N nodes are available: …).
	Message string
	// Plugins are the names of plugins that rejected nodes (unplaceable), sorted, or of the one that
	// has bound the pod (placed).
	Plugins []string
	// RetryAfter is how long after the decision something ends that kept the pod from being placed,
	// and that nobody tells of (unplaceable); 0 for nothing of that kind. Whole milliseconds.
	RetryAfter time.Duration
	// Reasons counts nodes by reason (unplaceable).
	Reasons map[string]int32
	// NodesTotal and NodesFeasible count what the attempt looked at.
	NodesTotal, NodesFeasible int32
	// Seed broke the ties of this attempt.
	Seed uint64
	// Strategy names the descheduler plugin (evict*).
	Strategy string
	// GracePeriodSeconds overrides the pod's own (evict*); nil leaves it, 0 kills at once.
	GracePeriodSeconds *int64
	// Owner is the UID of the pod's controller, and Landing the name of the node where its
	// replacement is expected (evict); both may be empty.
	Owner, Landing string
	// Youngest is when the youngest of the owner's pods was made that the decision knew of, by the
	// API server's clock and in whole seconds (evict); zero if it is not told. What is made later
	// is a replacement.
	Youngest time.Time
	// TellFailure asks for a Kubernetes event if the eviction is refused (evict).
	TellFailure bool
	// NotAfter is when the order ends, by the clock of the member that gives it, to the millisecond (evict): no binder
	// begins the eviction later. Zero: it does not say, as those of earlier versions.
	NotAfter time.Time
	// TraceParent is the W3C traceparent of the span that decided, or empty.
	TraceParent string
	// Evidence is what a shard's decision was computed from and what it weighed (placed,
	// nominated, unplaceable, failed, lost); nil where no shard looked at nodes. For people,
	// and for whoever makes the decision again: nothing is decided by it.
	Evidence *Evidence
}

// SequencedDecision is a Decision with its place in the log.
type SequencedDecision struct {
	Sequence uint64
	Decision
}
