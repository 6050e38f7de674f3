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
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Attempt is one offer being worked on.
type Attempt struct {
	Phase    Phase
	Offer    work.Offer
	Received time.Time
	Pod      *state.Pod
	Losses   int
	// Doubtful: the answer to its transaction was lost once.
	Doubtful bool
	Wait     Wait
	Turn     OwnTurn
	// Sought is when it was first asked to look for victims for it, in a count of such events.
	Sought uint64
	// Others are the next-best nodes after pick, best first.
	Others [MaxAlternatives]Alternative
	// Pick is set while the attempt is staged or in flight.
	Pick Pick
	// Recorded is the order of the last choice of a node that a record was made of.
	Recorded uint64
	// Missed are the plans of places that are kept for the pod and where it did not fit.
	Missed  []string
	Counsel Counsel
	// Verdict is what it ends with if nothing else is found for it; nil unless it fits nowhere.
	Verdict *Rejection
	// Deal is what plugins have to do with the choice of a node, nil for nothing.
	Deal *Deal
}

// Pick is the choice of a node for an attempt, and what it depends on.
type Pick struct {
	NodeUID, NodeName string
	// Basis is the version of the node's document that the decision counted: the only one it may
	// be committed on.
	Basis ledger.Version
	// Epoch is that of the pod's partition when the decision was made: the only one it may be
	// committed in.
	Epoch           int64
	Decided         time.Time
	Feasible, Total int
	Seed            uint64
	FactSequence    uint64
	// NodeRV is the resourceVersion of the node as the decision saw it.
	NodeRV uint64
	// Returned is how many places were returnedPlaces then.
	Returned uint64
	Needs    Needs
	// KeptPlace is what it takes of a place that was kept.
	Kept KeptPlace
	// Evidence is for the record of the attempt.
	Evidence *evidence.Evidence
	Volumes  claims.Supply
}

// Needs is what a pick needs besides the node's document.
type Needs struct {
	Guards []registry.GuardUse
	Pins   []Pin
	// CountsBatch and withdrawn: the pick is right only if no staged pod has been taken back
	// since (see txns.Needs).
	CountsBatch bool
	Withdrawn   uint64
	// Registry is the revision of the registry that the pick was decided by.
	Registry int64
	// Carried is how many terms of its own need guards; missing are those that have to be registered
	// before. There is no pick with some missing.
	Carried int
	Missing []registry.Term
}

// Pin is a bound pod that a pick relies on.
type Pin struct {
	NodeUID, NodeName string
	Keeper            ledger.Entry
}

// Wait is what a deferred attempt waits for; it is not decided before.
type Wait struct {
	// Revision of the ledger's watch.
	Revision int64
	// Terms that must be usable.
	Terms []registry.TermID
	// Asks and losses count what it has waited for so far.
	Asks, Losses int
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

// MaxAlternatives is how many of the next-best nodes an attempt remembers: one for each race
// that it may lose before it asks for a turn, and some that others have moved meanwhile.
const MaxAlternatives = 4

// Alternative is a node that would have been the choice if the better ones had not been
// there, as the decision saw it.
type Alternative struct {
	Node       *state.NodeInfo
	Generation uint64
	Basis      ledger.Version
}

// KeptPlace is what a pick takes of a placeholder's.
type KeptPlace struct {
	// Token of the placeholder, 0 for none; ousted: it was not for this pod.
	Token  ledger.Token
	Ousted bool
	// Replacement is what the pod is to the placeholder that it takes over.
	Replacement ledger.Replacement
	// Moved is the UID of the pod that the place was kept for the replacement of.
	Moved string
}

// Enter puts the reservation of a pick into its node's document, in the place of the placeholder
// if it takes one; an error if that is gone, or the document has no room.
func (p *Pick) Enter(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) {
	switch {
	case p.Kept.Token == 0:
		return txns.Place(d, e)
	case p.Kept.Ousted:
		return txns.Oust(d, p.Kept.Token, e)
	default:
		return txns.TakeOver(d, p.Kept.Replacement, p.Kept.Token, e)
	}
}

// On is the pod of an attempt on a node.
func (a *Attempt) On(node *state.Node) claims.Target {
	return claims.Target{Pod: a.Pod, Node: node, Seed: Seed(a.Pod.UID, a.Offer.Attempt)}
}

// Seed is what breaks ties in one attempt at one pod: the same for the same attempt, so
// that a decision can be rerun.
func Seed(podUID string, attempt int32) uint64 {
	d := xxhash.NewWithSeed(uint64(attempt))
	_, _ = d.WriteString(podUID) // a hash never fails
	return d.Sum64()
}

// Ledger returns the needs as a transaction states them.
func (n Needs) Ledger() txns.Needs {
	out := txns.Needs{Guards: slices.Clone(n.Guards), CountsBatch: n.CountsBatch}
	for _, p := range n.Pins {
		out.Pins = append(out.Pins, p.NodeUID)
	}
	return out
}

// Report returns what metrics and spans get to know of an attempt that ends with an outcome.
func (a *Attempt) Report(o step.Outcome) step.Attempt {
	return step.Attempt{
		Pod: a.Offer.Pod, Received: a.Received, Decided: a.Pick.Decided,
		Profile: a.Pod.SchedulerName, Number: a.Offer.Attempt, Outcome: o,
		NodeName: a.Pick.NodeName, Feasible: a.Pick.Feasible, Nodes: a.Pick.Total, Evidence: a.Pick.Evidence,
		Replaces: a.Pick.Kept.Moved,
	}
}

// Lost reports a race that an attempt has lost.
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

// Entry is the reservation that an attempt of a shard asks for.
func (a *Attempt) Entry(shard string) (ledger.Entry, error) {
	token, err := ledger.ParseToken(a.Offer.Token)
	if err != nil {
		return ledger.Entry{}, err
	}
	e := ledger.Entry{
		PodUID: a.Pod.UID, Namespace: a.Pod.Namespace, Name: a.Pod.Name,
		Role: ledger.RoleReservation, State: ledger.Committed,
		Priority: a.Pod.Priority, PodRV: a.Pod.ResourceVersion, Wish: a.Pod.Wish(), Token: token,
		Shard: shard, SchedulerName: a.Pod.SchedulerName,
		Requests:   a.Pod.Requests.Map(),
		Volumes:    a.Pick.Volumes.Volumes,
		Devices:    a.Pick.Volumes.Devices,
		NonZeroCPU: a.Pod.NonZero.MilliCPU, NonZeroMemory: a.Pod.NonZero.Memory,
	}
	switch {
	case a.Deal == nil:
	case a.Deal.Later:
		e.State, e.Plan = ledger.Held, txns.PreparedPlan(token)
	default:
		e.Delegated = a.Deal.Delegate(a.Pick.Volumes)
	}
	if a.Offer.Partition != e.Partition() {
		e.GroupPartition = a.Offer.Partition + 1
	}
	for _, p := range a.Pod.Ports {
		e.Ports = append(e.Ports, ledger.HostPort{IP: p.IP, Protocol: p.Protocol, Port: p.Port})
	}
	return e, nil
}

// Affordable reports an error unless a transaction could hold what a pod needs.
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
	// reserveOps is what a transaction that reserves a pod needs of ledger.MaxTxnOps besides guards,
	// pods that it follows, volumes and pools: the node's document and its incarnation, the epoch, the
	// registry, the floor, and the record of a plan.
	reserveOps = 6
)

// MaxLosses is how many races for a node one attempt may lose before it is given back to the
// queue, which offers it again at once and in its old place: at the head, since it was there
// when it was offered. It has done nothing wrong that it should have to wait for.
const MaxLosses = 8
