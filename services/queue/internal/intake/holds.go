package intake

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/decide"
)

// Holds turns the ledger's watch into inputs of the core. For one goroutine.
type Holds struct {
	view *ledger.View
	// last is where a pod's reservation was seen last, and as what.
	last map[string]seen
}

type seen struct {
	nodeUID string
	state   ledger.State
}

// NewHolds returns a picture of an empty ledger.
func NewHolds() *Holds {
	return &Holds{view: ledger.NewView(), last: map[string]seen{}}
}

// Fold takes one batch in. facts answers whether a pod is bound.
func (h *Holds) Fold(b ledger.ViewBatch, facts *state.Snapshot) (decide.LedgerMoved, error) {
	changes, err := h.view.Fold(b)
	if err != nil {
		return decide.LedgerMoved{}, err
	}
	pods := changes.PodUIDs
	if changes.Reset {
		pods = slices.Sorted(h.view.Reserved())
		h.last = make(map[string]seen, len(pods))
	}
	out := decide.LedgerMoved{Reset: changes.Reset, Revision: h.view.Revision()}
	for _, uid := range pods {
		out.Holds = append(out.Holds, h.hold(uid, facts))
	}
	if changes.Reset || len(changes.Partitions) > 0 {
		out.Owners, out.Wanted = h.owners(), h.wanted()
	}
	if changes.Reset || changes.Members {
		out.Shards = []string{}
		for _, m := range h.view.Members(membership.RoleScheduler) {
			out.Shards = append(out.Shards, m.ID)
		}
	}
	return out, nil
}

func (h *Holds) hold(uid string, facts *state.Snapshot) decide.Hold {
	if doc, e, ok := h.view.Entry(uid); ok {
		h.last[uid] = seen{doc.NodeUID, e.State}
		return decide.Hold{PodUID: uid, Live: true}
	}
	last := h.last[uid]
	hold := decide.Hold{PodUID: uid, Withdrawn: last.state == ledger.Held}
	if doc, ok := h.view.Doc(last.nodeUID); ok {
		hold.HW = doc.HW[string(events.KindPod)]
	}
	if pod, ok := facts.Pod(uid); ok {
		hold.Bound = pod.NodeName != ""
	}
	delete(h.last, uid)
	return hold
}

func (h *Holds) owners() *[ledger.Partitions]string {
	var out [ledger.Partitions]string
	for p, owner := range h.view.Owners() {
		out[p] = owner.Member
	}
	return &out
}

func (h *Holds) wanted() *[ledger.Partitions]string {
	var out [ledger.Partitions]string
	for p, member := range h.view.Wanted() {
		out[p] = member
	}
	return &out
}
