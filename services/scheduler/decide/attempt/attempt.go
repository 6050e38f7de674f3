package attempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Attempt is the shard's work on one offer: one try to place one pod. It lives from Queues.Begin to Queues.End, and
// may be decided many times in between. Pod, Pick and Advice belong to the last decision; the counts of losses and
// waits, and Doubtful, are kept as long as the attempt lives.
type Attempt struct {
	Phase    Phase
	Offer    work.Offer
	Received time.Time
	Pod      *state.Pod
	Losses   int
	// Doubtful: the answer to one of its transactions was lost, so that the transaction may have been committed.
	Doubtful bool
	Wait     Wait
	Turn     OwnTurn
	// PreemptionOrder is the sequence number that it got when it was first lined up for preemption; 0 if it never was.
	PreemptionOrder uint64
	// Alternatives are the next-best nodes after Pick, best first.
	Alternatives [MaxAlternatives]Alternative
	// Pick is set while the attempt is staged or in flight.
	Pick Pick
	// RecordedOrder is the order number of its last choice of a node for which a record was made.
	RecordedOrder uint64
	// UnfitPlaces are the plans of the places that are kept for the pod and in which it did not fit.
	UnfitPlaces []string
	Advice      Advice
	// Verdict is the result that it ends with if no other way to place the pod is found; nil unless it fits nowhere.
	Verdict *Rejection
	// Plugins is the state of the plugins that act on the choice of a node; nil for none.
	Plugins *PluginBinding
	// Gang is the try of a whole gang that the attempt is part of; nil for a pod that is placed alone.
	Gang *Gang
	// Tried are the members of its gang, by UID, for which it has tried to hold a place: see package preempt.
	Tried map[string]bool
}

// Pick is the choice of a node for an attempt, with everything that the choice depends on.
type Pick struct {
	NodeUID, NodeName string
	// Basis is the version of the node's document that the decision counted. The choice may be committed only on
	// this version.
	Basis ledger.Version
	// Epoch is the epoch of the pod's partition when the decision was made. The choice may be committed only in this
	// epoch.
	Epoch           int64
	Decided         time.Time
	Feasible, Total int
	Seed            uint64
	FactSequence    uint64
	// NodeRV is the resourceVersion of the node that the decision saw.
	NodeRV uint64
	// Returned is the count of returned places (lifecycle.Attempts) at the time of the decision.
	Returned uint64
	Needs    Needs
	// Kept is the placeholder that the pod takes over, if any.
	Kept KeptPlace
	// Evidence is for the record of the attempt.
	Evidence *evidence.Evidence
	Volumes  claims.Supply
}

// Needs lists what a pick depends on in addition to the node's document.
type Needs struct {
	Guards []registry.GuardUse
	Pins   []Pin
	// CountsBatch and Withdrawn: the pick is valid only if no staged pod has been withdrawn since (see
	// txns.Needs).
	CountsBatch bool
	Withdrawn   uint64
	// Registry is the revision of the term registry that the decision used.
	Registry int64
	// Carried is the number of the pod's own terms that need guards. Missing are the terms that must be registered
	// first; an attempt with missing terms gets no pick.
	Carried int
	Missing []registry.Term
}

// Pin is a bound pod that a pick relies on.
type Pin struct {
	NodeUID, NodeName string
	Keeper            ledger.Entry
}

// Wait holds the conditions of a deferred attempt. It is not decided before they are met.
type Wait struct {
	// Revision is the revision that the ledger's watch must have reached.
	Revision int64
	// Terms must be usable.
	Terms []registry.TermID
	// Registrations and Losses count the waits so far.
	Registrations, Losses int
}

// OwnTurn is an attempt's wait for its turn at a node.
type OwnTurn struct {
	NodeUID string
	Until   time.Time
	Granted bool
}

// Pending reports whether the attempt still has to wait for its turn.
func (t OwnTurn) Pending(now time.Time) bool {
	return t.NodeUID != "" && !t.Granted && now.Before(t.Until)
}

// MaxAlternatives is how many next-best nodes an attempt remembers: one for each race that it may lose before it
// asks for a turn, and some spare ones, because other attempts change the documents of some of them.
const MaxAlternatives = 4

// Alternative is a next-best node, as the decision saw it: it would have been chosen without the better ones.
type Alternative struct {
	Node       *state.NodeInfo
	Generation uint64
	Basis      ledger.Version
}

// KeptPlace is the placeholder that a pick takes over.
type KeptPlace struct {
	// Token is the token of the placeholder, 0 for none. Displaces: the place was kept for another pod.
	Token     ledger.Token
	Displaces bool
	// Replacement is the relation of the pod to the placeholder that it takes over.
	Replacement ledger.Replacement
	// Moved is the UID of the pod for whose replacement the place was kept.
	Moved string
}

// Enter writes the reservation of a pick into its node's document, replacing the placeholder if the pick takes one
// over. It returns an error if the placeholder is gone or the document has no room.
func (p *Pick) Enter(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) {
	switch {
	case p.Kept.Token == 0:
		return txns.Place(d, e)
	case p.Kept.Displaces:
		return txns.DisplacePlaceholder(d, p.Kept.Token, e)
	default:
		return txns.TakeOver(d, p.Kept.Replacement, p.Kept.Token, e)
	}
}

// Seed returns the seed that breaks ties in one attempt at one pod. The same attempt always gets the same seed, so
// that a decision can be rerun.
func Seed(podUID string, attempt int32) uint64 {
	d := xxhash.NewWithSeed(uint64(attempt))
	_, _ = d.WriteString(podUID) // a hash never fails
	return d.Sum64()
}

// Ledger returns the needs in the form of a transaction.
func (n Needs) Ledger() txns.Needs {
	out := txns.Needs{Guards: slices.Clone(n.Guards), CountsBatch: n.CountsBatch}
	for _, p := range n.Pins {
		out.Pins = append(out.Pins, p.NodeUID)
	}
	return out
}

// Report returns the report for metrics and spans on an attempt that ends with an outcome.
func (a *Attempt) Report(o step.Outcome) step.Attempt {
	return step.Attempt{
		Pod: a.Offer.Pod, Received: a.Received, Decided: a.Pick.Decided,
		Profile: a.Pod.SchedulerName, Number: a.Offer.Attempt, Outcome: o,
		NodeName: a.Pick.NodeName, Feasible: a.Pick.Feasible, Nodes: a.Pick.Total, Evidence: a.Pick.Evidence,
		Replaces: a.Pick.Kept.Moved,
	}
}

// Lost returns the report on a race that an attempt has lost.
func (a *Attempt) Lost(r step.Reason) step.Attempt {
	report := a.Report(step.Conflict)
	report.Reason = r
	return report
}

// Token returns the token of the offer, which becomes that of the reservation.
func (a *Attempt) Token() ledger.Token {
	token, _ := ledger.ParseToken(a.Offer.Token) // it was parsed when the flight was built
	return token
}

// Entry returns the reservation that an attempt of a shard requests.
func (a *Attempt) Entry(shard string) (ledger.Entry, error) {
	token, err := ledger.ParseToken(a.Offer.Token)
	if err != nil {
		return ledger.Entry{}, err
	}
	e := ledger.Entry{
		PodUID: a.Pod.UID, Namespace: a.Pod.Namespace, Name: a.Pod.Name,
		Role: ledger.RoleReservation, State: ledger.Committed,
		Priority: a.Pod.Priority, PodRV: a.Pod.ResourceVersion, PlacementHash: a.Pod.PlacementHash(), Token: token,
		Shard: shard, SchedulerName: a.Pod.SchedulerName,
		Requests:   a.Pod.Requests.Map(),
		Volumes:    a.Pick.Volumes.Volumes,
		Devices:    a.Pick.Volumes.Devices,
		NonZeroCPU: a.Pod.NonZero.MilliCPU, NonZeroMemory: a.Pod.NonZero.Memory,
	}
	switch {
	case a.Plugins == nil:
	case a.Plugins.WorkLeft:
		e.State, e.Plan = ledger.Held, txns.PreparedPlan(token)
	default:
		e.Delegated = a.Plugins.Delegate(a.Pick.Volumes)
	}
	if a.Offer.Partition != e.Partition() {
		e.GroupPartition = a.Offer.Partition + 1
	}
	for _, p := range a.Pod.Ports {
		e.Ports = append(e.Ports, ledger.HostPort{IP: p.IP, Protocol: p.Protocol, Port: p.Port})
	}
	return e, nil
}

// Affordable returns an error if no transaction could hold what a pod needs.
func (n Needs) Affordable(v claims.Supply) error {
	if n.Carried > registry.MaxPodTerms {
		return fmt.Errorf("the pod has %d rules about pods on other nodes that the ledger has to guard, "+
			"at most %d are accepted", n.Carried, registry.MaxPodTerms)
	}
	compares, puts := 0, 0
	for _, g := range n.Guards {
		if g.Compare {
			compares++
		}
		if g.Put {
			puts++
		}
	}
	others := len(n.Pins) + len(v.Holdings())
	if ops := reserveOps + others + max(compares, puts); ops > ledger.MaxTxnOps {
		return fmt.Errorf("the pod needs %d operations of one transaction of the ledger, at most %d are accepted: "+
			"%d for rules about pods on other nodes, of which it carries %d and others select it, "+
			"and %d for pods that it follows, volumes and pools of devices",
			ops, ledger.MaxTxnOps, max(compares, puts), n.Carried, others)
	}
	return nil
}

const (
	// reserveOps is the number of operations of ledger.MaxTxnOps that a transaction needs to reserve a pod, apart
	// from guards, pods that it follows, volumes and device pools: the node's document and its incarnation, the
	// epoch, the registry, the floor, and the record of a plan.
	reserveOps = 6
)

// MaxLosses is how many races for a node one attempt may lose before it is given back to the queue. The queue offers
// the pod again at once, in its old place at the head of the queue: losing races is not the pod's fault, so it gets
// no backoff.
const MaxLosses = 8
