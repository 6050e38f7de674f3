package intake

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide"
)

// Holds turns the ledger's watch into inputs of the core. It is for one goroutine.
//
// The view has what the ledger contains; an input must say what has changed for the pods that wait. So Holds remembers,
// next to the view, what has disappeared from it: where a reservation was, and how many claims a budget had.
type Holds struct {
	// view is the ledger as of the last batch.
	view *replica.View
	// last is where a pod's reservation was last seen, and in which state.
	last map[string]lastHold
	// claims counts the claims on each disruption budget, by the budget's UID.
	claims map[string]int
}

// lastHold is a pod's reservation as it was last seen.
type lastHold struct {
	nodeUID string
	state   ledger.State
	// prepared means that plugins had work to do before the pod could be bound.
	prepared bool
}

// NewHolds returns the view of an empty ledger.
func NewHolds() *Holds {
	return &Holds{view: replica.NewView(), last: map[string]lastHold{}, claims: map[string]int{}}
}

// View returns the ledger as of the last batch. The caller must only read it.
func (h *Holds) View() *replica.View { return h.view }

// Fold applies one batch and returns what it means to the core. facts is used to check whether a pod is bound, and of
// which priority a pod is that may be evicted again; it may be older or newer than the ledger.
func (h *Holds) Fold(b replica.Batch, facts *state.Snapshot) (decide.LedgerMoved, error) {
	changes, err := h.view.Fold(b)
	if err != nil {
		return decide.LedgerMoved{}, err
	}
	pods := changes.PodUIDs
	if changes.Reset {
		pods = slices.Sorted(h.view.Reserved())
		h.last = make(map[string]lastHold, len(pods))
	}
	// A pod is reported again if its reservation has changed in another way than its end: to apply a hold again is
	// harmless.
	out := decide.LedgerMoved{
		Reset: changes.Reset, Generation: changes.Generation, Revision: h.view.Revision(),
		Freed: h.protectionsEnded(changes, facts),
	}
	for i := range changes.Docs {
		out.PlaceFreed = out.PlaceFreed || freesPlace(&changes.Docs[i])
	}
	for _, uid := range pods {
		out.Holds = append(out.Holds, h.hold(uid, facts))
	}
	if changes.Reset || len(changes.Partitions) > 0 {
		out.Owners, out.Requested = h.owners(), h.wanted()
	}
	if changes.Reset || changes.Members {
		out.Shards = []string{}
		for _, m := range h.view.Roster().Members(membership.RoleScheduler) {
			out.Shards = append(out.Shards, m.ID)
		}
	}
	return out, nil
}

// protectionsEnded returns which pods can benefit from the end of promises about pods, or of claims on budgets; nil
// for none.
func (h *Holds) protectionsEnded(changes replica.Changes, facts *state.Snapshot) *decide.Freed {
	if changes.Reset {
		clear(h.claims)
		for b := range h.view.Budgets().All() {
			h.claims[b.UID] = len(b.Claims)
		}
		return nil
	}
	var freed *decide.Freed
	for i := range changes.Docs {
		for _, priority := range unprotectedIn(&changes.Docs[i], facts) {
			if freed == nil || priority < freed.Above {
				freed = &decide.Freed{Above: priority}
			}
		}
	}
	for _, uid := range changes.Budgets {
		before, now := h.claims[uid], len(h.view.Budgets().Of(uid).Claims)
		if h.claims[uid] = now; now == 0 {
			delete(h.claims, uid)
		}
		if now < before {
			freed = &decide.Freed{Above: math.MinInt32}
		}
	}
	return freed
}

// unprotectedIn returns the priorities of the pods that a document no longer protects from being victims and that still
// exist.
func unprotectedIn(c *replica.DocChange, facts *state.Snapshot) []int32 {
	var out []int32
	for _, e := range c.Removed {
		kept := func(a ledger.Entry) bool { return a.PodUID == e.PodUID && protects(&a) }
		if !protects(e) || slices.ContainsFunc(c.After.Entries, kept) {
			continue
		}
		pod, known := facts.Pod(e.PodUID)
		if known && !pod.Deleting && !pod.Terminal {
			out = append(out, pod.Priority)
		}
	}
	return out
}

// freesPlace reports whether a place that was kept for a pod that is moved is gone without a pod having taken it: a
// pod that takes over or displaces such a place has a reservation in the same revision.
func freesPlace(c *replica.DocChange) bool {
	left := 0
	for _, e := range c.Removed {
		if e.Role == ledger.RoleMove && !slices.ContainsFunc(c.After.Entries, func(a ledger.Entry) bool {
			return a.Role == ledger.RoleMove && a.Token == e.Token
		}) {
			left++
		}
	}
	if left == 0 {
		return false
	}
	for _, e := range c.Added {
		if e.Role == ledger.RoleReservation && !c.Before.Reserves(e.PodUID) {
			left--
		}
	}
	return left > 0
}

// protects reports whether an entry protects its pod from becoming a victim.
func protects(e *ledger.Entry) bool {
	return e.Role == ledger.RoleVictim || e.Role == ledger.RoleKeeper || e.State == ledger.Held
}

// hold returns what the view shows of a pod's reservation. If it shows none any more, the result describes how the last
// one ended: whether it could have been bound, and up to where the facts must come to show that it was not.
func (h *Holds) hold(uid string, facts *state.Snapshot) decide.Hold {
	if doc, e, ok := h.view.Entry(uid); ok {
		h.last[uid] = lastHold{doc.NodeUID, e.State, txns.IsPrepared(e.Plan)}
		return decide.Hold{PodUID: uid, Live: true}
	}
	last := h.last[uid]
	// A hold for plugins that was taken back is not reported as withdrawn: its verdict is on its way, and if the pod
	// were offered again at once, it would meet the same plugins.
	hold := decide.Hold{PodUID: uid, Withdrawn: last.state == ledger.Held && !last.prepared, Prepared: last.prepared}
	if doc, ok := h.view.Doc(last.nodeUID); ok {
		hold.HW = doc.HW[string(events.KindPod)]
	}
	if pod, ok := facts.Pod(uid); ok {
		hold.Bound = pod.NodeName != ""
	}
	delete(h.last, uid)
	return hold
}

// owners returns the member that holds each partition.
func (h *Holds) owners() *[ledger.Partitions]string {
	var out [ledger.Partitions]string
	for p, owner := range h.view.Roster().Owners() {
		out[p] = owner.Member
	}
	return &out
}

// wanted returns the member that should hold each partition, where the queue has requested one.
func (h *Holds) wanted() *[ledger.Partitions]string {
	var out [ledger.Partitions]string
	for p, member := range h.view.Roster().Wanted() {
		out[p] = member
	}
	return &out
}
