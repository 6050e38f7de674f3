package gates

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Remover removes the quota's gate from pods when decisions order it.
type Remover struct {
	*basis.Base
	removals map[string]*gateRemoval
	// dropped counts orders that were dropped because Limits.Foreign was reached.
	dropped uint64
}

// New returns a remover without orders.
func New(base *basis.Base) *Remover { return &Remover{Base: base, removals: map[string]*gateRemoval{}} }

// work is a removal that waits for the answer to its effect.
type work struct {
	u *gateRemoval
	g *Remover
}

// Answered implements effect.Machine.
func (w work) Answered(in effect.Input) { w.u.answered(w.g, in) }

// Advance tries to advance everything that waits.
func (g *Remover) Advance() {
	for _, uid := range slices.Sorted(maps.Keys(g.removals)) {
		g.removals[uid].advance(g)
	}
}

// Late reports whether it is too late to begin a removal that waits for a worker.
func (g *Remover) Late(op effect.OpID) bool {
	w, is := g.Waiting(op).(work)
	return is && w.u.late(g)
}

// Pending counts the removals that are remembered.
func (g *Remover) Pending() int { return len(g.removals) }

// Dropped counts the orders that were dropped because Limits.Foreign was reached.
func (g *Remover) Dropped() uint64 { return g.dropped }

// gateRemoval is one pod whose quota gate must be removed.
//
// Order: decision in the log → patch. A crash before or after the patch leaves the decision to the other binders,
// which remember it, and if all forget it, to the queue, which requests the removal again while the facts show the
// gate. Removing a gate that does not exist changes nothing. The removal is begun within Limits.Ungate only, and the
// call ends at most Limits.Call after that: if the log loses the decision, the next leading queue does not know of
// it, and gives the room to another pod after a while.
type gateRemoval struct {
	order events.Decision
	op    effect.OpID
	basis.Pacing
	// since is when the decision was read.
	since time.Time
}

// Order handles a decision to remove a gate.
func (g *Remover) Order(d events.Decision) {
	u, ok := g.removals[d.Pod.UID]
	if !ok {
		if !g.Holds(d.Pod.UID) && len(g.removals) >= g.Limits.Foreign {
			g.dropped++
			return
		}
		u = &gateRemoval{Pacing: basis.Pacing{Retry: g.Limits.Retry}}
		g.removals[d.Pod.UID] = u
	}
	if u.order.Token != d.Token {
		u.since = g.Now
	}
	u.order = d
	u.advance(g)
}

func (u *gateRemoval) advance(g *Remover) {
	if u.op != 0 || g.Facts.Cluster == nil {
		return
	}
	if u.over(g) || u.late(g) {
		delete(g.removals, u.order.Pod.UID)
		return
	}
	if g.Now.Before(u.Due) || !g.MayAct(u.order.Pod.UID) {
		return
	}
	if _, known, _ := g.Pod(u.order.Pod.UID, 0); !known {
		return // the decision used later facts than this binder has
	}
	u.op = g.Begin(work{u, g})
	g.Emit(effect.RemoveGate{
		Op: u.op, Pod: u.order.Pod, Gate: events.QuotaGate, NotAfter: u.since.Add(g.Limits.Ungate + g.Limits.Call),
	})
}

// late reports whether it is too late to begin the removal; the queue requests it again.
func (u *gateRemoval) late(g *Remover) bool { return g.Now.Sub(u.since) > g.Limits.Ungate }

// over reports whether the facts show that nothing is left to do.
func (u *gateRemoval) over(g *Remover) bool {
	p, known, _ := g.Pod(u.order.Pod.UID, 0)
	if !known {
		return g.Facts.Sequence >= u.order.FactSequence && g.Facts.PodProgressKnown
	}
	return !hasGate(p, events.QuotaGate)
}

func hasGate(p *state.Pod, name string) bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == name
	})
}

func (u *gateRemoval) answered(g *Remover, in effect.Input) {
	u.op = 0
	a, ok := in.(effect.Answered)
	if !ok { // NotStarted: its time has expired, at least by the wall clock, and the queue requests it again
		delete(g.removals, u.order.Pod.UID)
		return
	}
	switch a.Result {
	case effect.Refused:
		u.refused(g, a.Problem)
		delete(g.removals, u.order.Pod.UID) // the queue requests it again
	case effect.Done, effect.Gone:
		// The facts will show the removal; if they do not, the queue requests it again.
		delete(g.removals, u.order.Pod.UID)
	default:
		u.Pause(g.Now)
	}
}

// refused informs the pod's owner that the gate stays. Most often the binder lacks the permission to change pods,
// which it needs for nothing else and does not get by default.
func (u *gateRemoval) refused(g *Remover, problem string) {
	p, known, _ := g.Pod(u.order.Pod.UID, 0)
	if !known {
		return
	}
	g.Emit(effect.Report{
		Pod: u.order.Pod, SchedulerName: p.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedUngating", Action: "Ungating",
		Note: fmt.Sprintf("Scheduling gate %s cannot be removed, although the budget has room: the API server refuses "+
			"it. If the binder has no right to patch pods, give it that (quotaGate.enabled of the chart, component "+
			"quota-gate of the kustomizations). Refused: %s", events.QuotaGate, problem),
	})
}
