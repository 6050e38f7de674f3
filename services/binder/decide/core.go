package decide

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/bind"
	"github.com/berth-scheduler/berth/services/binder/decide/document"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	"github.com/berth-scheduler/berth/services/binder/decide/evict"
	"github.com/berth-scheduler/berth/services/binder/decide/gates"
	"github.com/berth-scheduler/berth/services/binder/decide/nodemarks"
	"github.com/berth-scheduler/berth/services/binder/decide/podgroups"
	"github.com/berth-scheduler/berth/services/binder/decide/podstatus"
)

// Core makes the binder's decisions. It is for one goroutine.
type Core struct {
	base *basis.Base
	// stop is the reason why the binder must end; nil while it need not.
	stop error

	documents    *document.Store
	reservations *bind.Reservations
	status       *podstatus.Writer
	gates        *gates.Remover
	marks        *nodemarks.Marker
	groups       *podgroups.Writer
	evictor      *evict.Evictor
	sweeper      *document.Sweeper

	// lastDue is when plans and nominations were last checked for due work, and lastRound when all of them were checked.
	lastDue, lastRound time.Time
	// lastForget is when pods were last searched for data to forget.
	lastForget time.Time
}

// NewCore returns a core that knows nothing yet. id is the binder's member id, which makes the fence values of
// different binders different. enforces selects the rules of the recheck before a bind.
func NewCore(id string, limits basis.Limits, enforces basis.Enforces) *Core {
	c := &Core{base: basis.New(id, limits, enforces)}
	c.documents = document.NewStore(c.base)
	c.reservations = bind.New(c.base, c.documents)
	c.status = podstatus.New(c.base, c.reservations)
	c.gates = gates.New(c.base)
	c.marks = nodemarks.New(c.base)
	c.groups = podgroups.New(c.base)
	c.evictor = evict.New(c.base, c.documents, c.status)
	c.sweeper = document.NewSweeper(c.base, c.documents, c.evictor)
	return c
}

// Step processes one input at the time now and returns what to do, in order. It implements driver.Core. now must not go
// backwards (use a monotonic clock). After effect.Stop the core must not be trusted: every later step returns it again.
func (c *Core) Step(in effect.Input, now time.Time) []effect.Effect {
	c.base.Now = now
	if c.stop == nil {
		c.digest(in)
	}
	out := c.base.Emitted()
	if c.stop != nil {
		return []effect.Effect{effect.Stop{Err: c.stop}}
	}
	return out
}

// digest processes one input. What an answer shows of the ledger is learned before the answer is handled, so that the
// machine that waits for it finds the outcome in the view.
func (c *Core) digest(in effect.Input) {
	switch in := in.(type) {
	case effect.FactsChanged:
		c.factsMoved(in)
	case effect.LedgerChanged:
		c.ledgerMoved(in)
	case effect.PartitionsChanged:
		c.partitionsChanged(in)
	case effect.DecisionSeen:
		c.decisionSeen(in.Decision)
	case effect.Tick:
		c.tick()
	case effect.Drain:
		c.base.Draining = true
	case effect.Answered:
		c.base.Answer(in.Op, in)
	case effect.DocRead:
		c.vouchRead(in)
		c.base.Answer(in.Op, in)
	case effect.Transacted:
		c.base.Answer(in.Op, in)
	case effect.Amended:
		c.learnKeys(in)
		c.base.Answer(in.Op, in)
	case effect.NotStarted:
		c.base.Answer(in.Op, in)
	}
}

// tick does what only time brings.
func (c *Core) tick() {
	c.advanceWaiting()
	c.advanceDue()
	if !c.base.Draining {
		c.forget()
	}
	c.sweeper.Sweep()
	c.marks.Advance()
	c.groups.Advance()
	c.reservations.ForgetRefused()
}

// Moot reports whether an effect that still waits has become pointless or harmful. A write for a pod that waits would
// move the resourceVersion that a bind relies on, or be refused because the pod is bound; or it would clear a
// nominatedNodeName that is not the one that was judged. An eviction may have waited
// longer than its claim is vouched for, or its plan may have been given up. The caller must drop such an effect and
// send the core NotStarted.
func (c *Core) Moot(e effect.Effect) (effect.OpID, bool) {
	switch e := e.(type) {
	case effect.PatchCondition:
		if e.Condition.Type != corev1.PodScheduled {
			return 0, false
		}
		return e.Op, c.settled(e.Pod.UID) || c.status.Moot(e)
	case effect.Nominate:
		return e.Op, c.settled(e.Pod.UID) || c.status.MootEnd(e)
	case effect.RemoveGate:
		return e.Op, c.gates.Late(e.Op)
	case effect.Evict:
		return e.Op, !e.DryRun && c.evictor.Moot(e.Op)
	}
	return 0, false
}

// settled reports whether a pod is bound, or a bind may be in flight.
func (c *Core) settled(podUID string) bool {
	p, known, _ := c.base.Pod(podUID, 0)
	return c.reservations.Placed(podUID) || known && p.NodeName != ""
}

// Ready reports whether the core knows facts, ledger and partitions well enough to act.
func (c *Core) Ready() bool { return c.base.Ready() }

// Running counts the effects whose answer is outstanding.
func (c *Core) Running() int { return c.base.Running() }

// Stats holds the core's gauges.
type Stats struct {
	Reservations, Conditions, Evictions, Hints int
	// Plans counts plans with a hold or placeholder, Removals the claims on victims, and Mirrors the pods that this
	// binder has nominated.
	Plans, Removals, Mirrors int
	// FencesRefused counts the reservations that cannot be taken back because the API server refuses the write.
	FencesRefused int
	// Withheld and Kept count the nodes of this binder's partitions with marks for autoscalers.
	Withheld, Kept int
	Dropped        uint64
}

// Stats counts what the core remembers.
func (c *Core) Stats() Stats {
	r, s := c.reservations.Stats(), c.status.Stats()
	e, m := c.evictor.Stats(), c.marks.Stats()
	return Stats{
		Reservations: r.Reservations, Conditions: s.Conditions, Evictions: e.Orders, Hints: r.Hints,
		Plans: e.Plans, Removals: e.Removals, Mirrors: s.Nominations,
		FencesRefused: r.FencesRefused, Withheld: m.Withheld, Kept: m.Kept,
		Dropped: r.Dropped + s.Dropped + e.Dropped + c.gates.Dropped() + m.Dropped,
	}
}

// stopForLedger stops the binder: its view of the ledger has a gap.
func (c *Core) stopForLedger(err error) { c.stop = fmt.Errorf("binder: ledger: %w", err) }

// factsMoved adopts a new view of the cluster. It removes the lists that describe this one step, because the base keeps
// the rest until the next one.
func (c *Core) factsMoved(in effect.FactsChanged) {
	c.reservations.Replaced(in.Replaced)
	c.marks.Shown(in.Marked, in.MarkedAll)
	rejected, moved := in.Rejected, in.ChangedPods
	in.Replaced = nil
	in.Rejected = nil
	in.ChangedPods = nil
	in.Marked = nil
	c.base.Facts = in
	for _, p := range rejected {
		c.rejected(p)
	}
	c.advanceWaiting()
	if moved == nil {
		c.advancePlans()
	} else {
		c.advanceTouched(moved)
	}
}

// rejected reports one of Berth's pods that its kubelet rejected: the bind was correct by all that was known, and
// failed anyway. There is nothing to carry out. The pod's controller creates another pod, and the shards see the same
// fact and keep that pod away from the node.
func (c *Core) rejected(p *state.Pod) {
	reason, message, ok := p.Rejection()
	token := p.Attempt()
	if !ok || token == "" || !c.base.MayAct(p.UID) {
		return
	}
	ref := events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	c.base.Emit(effect.Rejected{Pod: ref, NodeName: p.NodeName, Reason: reason})
	c.base.Publish(events.Decision{
		Kind: events.DecisionRejected, Pod: ref, SchedulerName: p.SchedulerName, Token: token, NodeName: p.NodeName,
		PodResourceVersion: p.ResourceVersion, Message: reason + ": " + message,
	})
}

// returned emits an event for a pod that was placed back where the pod it replaces was moved away from.
func (c *Core) returned(d events.Decision) {
	if c.base.MayAct(d.Pod.UID) {
		c.base.Emit(effect.Report{
			Pod: d.Pod, SchedulerName: d.SchedulerName, Type: "Warning", Reason: "CameBack", Action: "Descheduling",
			Note: d.Message,
		})
	}
}

// partitionsChanged adopts the partitions that this member holds from now on, and begins what that permits. Work in
// flight for a partition that was lost goes on until its answer; every effect is guarded.
func (c *Core) partitionsChanged(in effect.PartitionsChanged) {
	c.base.Hold(in.Held)
	c.reservations.Reindex()
	c.advanceWaiting()
	c.advancePlans()
}

// decisionSeen hands a record of the decision log to the part that it concerns. A decision is a hint: it may be
// missing, repeated, or older than what ledger and facts show.
func (c *Core) decisionSeen(d events.Decision) {
	token, err := ledger.ParseToken(d.Token)
	if err != nil || d.Pod.UID == "" {
		return // the log's decoder reports malformed records; a hint without identity is of no use
	}
	key := basis.Attempt{Pod: d.Pod.UID, Token: token}
	switch d.Kind {
	case events.DecisionPlaced:
		c.marks.Seen(d)
		c.groups.Seen(d)
		c.reservations.Hint(key, d)
	case events.DecisionUnplaceable, events.DecisionFailed, events.DecisionQuarantined,
		events.DecisionNominated, events.DecisionWithdrawn:
		c.marks.Seen(d)
		c.groups.Seen(d)
		c.status.Require(d)
		if basis.BindFailed(d) {
			c.reservations.Hint(key, d)
		}
	case events.DecisionUngate:
		c.gates.Order(d)
	case events.DecisionCondition:
		c.status.Settled(d)
	case events.DecisionEvict:
		c.evictor.Order(key, d)
	case events.DecisionEvicted, events.DecisionEvictRefused:
		c.evictor.Settled(key, d.Kind == events.DecisionEvictRefused)
	case events.DecisionReturned:
		c.returned(d)
	case events.DecisionBound, events.DecisionReleased, events.DecisionEvictBackground:
		// The facts and the ledger show it with more authority.
	}
}
