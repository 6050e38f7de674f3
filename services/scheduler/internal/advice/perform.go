package advice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/shard"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Custom plugins that act once a node has been chosen (Config.Acts) are asked to in two parts, as upstream has a
// scheduling cycle and a binding cycle.
//
//	chosen, staged ──ActReserve──► nothing left to do ──► T1: Committed ──(ActBind)──► bound ──ActBound──►
//	                      └──► something left ──► T1: Held ──ActPrepare──► T3: Committed ──┘
//
// ActReserve is Reserve and Permit, and belongs to the cycle of the question that led to the choice: no other
// question goes out before it is answered. Mostly nothing is left to do then, and the reservation is one like any
// other. If Permit has the pod wait, or there is something to do before the bind, its place is Held in the ledger
// meanwhile, under a plan of its own (ledger.PreparedPlan): it counts for all shards, nobody binds it, and a more
// important pod may take it (T4). ActPrepare is what is left, and what it comes to has the place promoted or given
// up.
//
// Plugins that bind do so when the reservation is Committed, and marked so that binders leave the bind to them
// (ledger.Entry.Delegated, bindby.go).
//
// Whatever ends it otherwise, a lost race, a place that was taken, a pod that is gone, a bind that failed, the
// plugins are told to take it back (ActUndo), once; those that have refused or failed have done so themselves. A
// shard that does not know of a deal gives its place up: the process that had the plugins' state is gone.

const (
	// maxPreparing is how many pods of a shard may be at ActPrepare: whole groups wait for their last pod at Permit.
	// More are not tried meanwhile.
	maxPreparing = 1024
)

// Plugins is what plugins are doing about chosen nodes; the keys are IDs of questions, but for bindable.
type Plugins struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	// actsFor and postFiltersFor are the scheduler names of profiles with plugins that do so.
	actsFor, postFiltersFor map[string]bool
	plans                   Plans
	// Missed notes the places kept for the pod of an attempt that it did not take.
	Missed func(*attempt.Attempt)

	// preparing are holds at ActPrepare, binding reservations at ActBind, undoing what ActUndo is under way for, with
	// whether it belongs to a cycle. (Attempts at ActReserve and ActPostFilter are in phases of their own.)
	preparing map[uint64]*attempt.Deal
	binding   map[uint64]*attempt.Deal
	undoing   map[uint64]bool
	// bindable are the deals of reservations that binders may bind, by pod UID.
	bindable map[string]*attempt.Deal
}

func NewPlugins(life *lifecycle.Attempts, p Plans, acts, postFilters map[string]bool) *Plugins {
	return &Plugins{
		shard: life.Shard, attempts: life.Attempts, record: life.Record, effects: life.Record.Effects, life: life,
		actsFor: acts, postFiltersFor: postFilters, plans: p,
		preparing: map[uint64]*attempt.Deal{}, binding: map[uint64]*attempt.Deal{},
		undoing: map[uint64]bool{}, bindable: map[string]*attempt.Deal{},
	}
}

// Plans is preemption, as far as plugins and extenders have to do with it.
type Plans interface {
	// HoldPlace holds the place of a deal while plugins prepare the bind.
	HoldPlace(d *attempt.Deal)
	// Prepared applies that plugins have prepared the bind of a deal, or have not.
	Prepared(d *attempt.Deal)
	// Vetted applies what extenders have answered about the place of a plan.
	Vetted(plan string, advice step.Advice)
	// LineUp makes an attempt that fits nowhere wait for its turn to look for victims.
	LineUp(r attempt.Rejection)
	// Reject ends an attempt that fits nowhere, as soon as that is certain.
	Reject(r attempt.Rejection)
}

// inCycle tells whether plugins take something back that belongs to a cycle.
func (c *Plugins) inCycle() bool {
	for _, cycle := range c.undoing {
		if cycle {
			return true
		}
	}
	return false
}

func (c *Plugins) Idle() bool {
	return len(c.preparing)+len(c.binding)+len(c.undoing) == 0
}

// acts tells whether plugins act on a pod once a node has been chosen.
func (c *Plugins) acts(pod *state.Pod) bool { return c.actsFor[pod.SchedulerName] }

// Proceed sends an attempt on that has been staged: to the plugins first, if they act.
func (c *Plugins) Proceed(a *attempt.Attempt) {
	if !c.acts(a.Pod) {
		c.attempts.Append(attempt.Staged, a)
		return
	}
	a.Deal = &attempt.Deal{
		ID: a.Counsel.ShownFor, Attempt: a, NodeUID: a.Pick.NodeUID, Node: a.Pick.NodeName, Token: a.Token(),
	}
	c.attempts.Ask(a, attempt.Reserving, a.Deal.ID)
	c.perform(a.Deal, step.ActReserve)
}

func (c *Plugins) perform(d *attempt.Deal, act step.Act) {
	pod := d.Attempt.Pod
	c.effects.Perform(step.Perform{
		ID: d.ID, Act: act, Shard: c.shard.ID, SchedulerName: pod.SchedulerName, Pod: pod, Node: d.Node,
	})
}

// Undo has plugins take back what they have reserved, unless they have nothing more to do with it.
func (c *Plugins) Undo(d *attempt.Deal, inCycle bool) {
	if d == nil || d.Over {
		return
	}
	d.Over = true
	c.undoing[d.ID] = inCycle
	c.perform(d, step.ActUndo)
}

// UndoInCycle makes plugins take back what they have reserved in the cycle that is under way.
func (c *Plugins) UndoInCycle(d *attempt.Deal) { c.Undo(d, true) }

// Performed takes in an answer. Whoever it is for may have gone.
func (c *Plugins) Performed(p step.Performed) {
	switch p.Act {
	case step.ActReserve:
		if a, waits := c.attempts.Answered(attempt.Reserving, p.ID); waits {
			c.reserved(a, p)
		}
	case step.ActPrepare:
		d, known := c.preparing[p.ID]
		delete(c.preparing, p.ID)
		if !known || d.Over {
			return
		}
		d.Outcome, d.Over = &p, p.Failed()
		c.plans.Prepared(d)
	case step.ActUndo:
		delete(c.undoing, p.ID)
	case step.ActBind:
		c.bindEnded(p)
	case step.ActPostFilter:
		c.postFiltered(p)
	case step.ActBound:
	}
}

// reserved goes on with an attempt for which plugins have reserved, or not.
func (c *Plugins) reserved(a *attempt.Attempt, p step.Performed) {
	switch {
	case p.Refusal != nil:
		a.Deal = nil
		d := c.refusal(a, p.Refusal)
		d.LedgerRevision = a.Counsel.From.Ledger
		c.life.Unplaceable(attempt.Rejection{Attempt: a, Decision: d})
	case p.Err != nil:
		a.Deal = nil
		c.life.Fail(a, p.Err.Error())
	default:
		a.Deal.Later, a.Deal.Asked = p.Later, p.Binds
		c.attempts.Append(attempt.Staged, a)
	}
}

// refusal is the verdict on a pod that a plugin has refused on its node, with upstream's message (FitError in
// pkg/scheduler/framework/types.go, of one node). It is as old as the question.
func (c *Plugins) refusal(a *attempt.Attempt, r *step.Refusal) events.Decision {
	d := c.record.Decision(events.DecisionUnplaceable, a)
	from := a.Counsel.From.Facts
	d.FactSequence, d.FactEpoch = from.Sequence, from.Epoch
	d.Reasons = map[string]int32{}
	for _, reason := range r.Reasons {
		d.Reasons[reason]++
	}
	lines := make([]string, 0, len(d.Reasons))
	for reason, n := range d.Reasons {
		lines = append(lines, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(lines)
	d.Message = "0/1 nodes are available:"
	if len(lines) > 0 {
		d.Message += " " + strings.Join(lines, ", ") + "."
	}
	if r.Plugin != "" {
		d.Plugins = []string{r.Plugin}
	}
	d.NodesTotal, d.Seed = int32(a.Pick.Total), a.Pick.Seed
	return d
}

// Settle goes on with the deal of an attempt whose reservation stands, at revision; false if plugins have something
// left to do first.
func (c *Plugins) Settle(a *attempt.Attempt, revision int64) (bindable bool) {
	d := a.Deal
	a.Deal = nil
	switch {
	case d == nil:
		return true
	case !d.Later && !d.Delegated:
		c.bindable[a.Offer.Pod.UID] = d
		return true
	case !d.Later:
		c.record.Answered(a) // it is recorded when plugins have answered
		c.Missed(a)
		c.life.Drop(a)
		c.LetBind(d, revision)
		return false
	}
	// What has counted the pod as one that will be there has to be decided again.
	c.life.Withdraw()
	c.record.Answered(a) // it is recorded when it has come to something
	c.life.Drop(a)
	if c.shard.Draining {
		c.Undo(d, false)
		return false
	}
	c.plans.HoldPlace(d)
	c.preparing[d.ID] = d
	c.perform(d, step.ActPrepare)
	return false
}

// ReportFailed ends the attempt of a place that has been given up because plugins would not have it; false if that was
// not why.
func (c *Plugins) ReportFailed(d *attempt.Deal, revision int64) bool {
	if d == nil || d.Outcome == nil || !d.Outcome.Failed() {
		return false
	}
	a := d.Attempt
	if r := d.Outcome.Refusal; r != nil {
		verdict := c.refusal(a, r)
		verdict.LedgerRevision = revision
		c.record.Unplaceable(a, verdict)
		return true
	}
	c.record.Failed(a, d.Outcome.Err.Error())
	return true
}

// Leave goes on with a deal whose hold is one no more.
func (c *Plugins) Leave(podUID string, d *attempt.Deal) {
	if d == nil {
		return
	}
	if _, e, ok := c.shard.Ledger.Entry(podUID); ok && e.Token == d.Token && e.State != ledger.Held {
		c.bindable[podUID] = d // promoted
		return
	}
	c.Undo(d, false)
}

// Watch notes that a reservation can be bound for which plugins have acted.
func (c *Plugins) Watch(podUID string, d *attempt.Deal) { c.bindable[podUID] = d }

// FollowFacts applies changes of pods.
func (c *Plugins) FollowFacts(pods []state.PodChange) {
	for i := range pods {
		if len(c.bindable) == 0 {
			return
		}
		if p := pods[i].After; p != nil {
			c.seeBound(p.UID)
		} else {
			c.seeBound(pods[i].Before.UID)
		}
	}
}

// FollowLedger applies that the ledger's entries of some pods have changed.
func (c *Plugins) FollowLedger(podUIDs []string) {
	if len(c.bindable) == 0 {
		return
	}
	for _, uid := range podUIDs {
		c.seeBound(uid)
	}
}

// seeBound tells plugins of pods that are bound, or will not be by the reservation that they know.
func (c *Plugins) seeBound(podUID string) {
	d, ok := c.bindable[podUID]
	if !ok {
		return
	}
	pod, known := c.shard.View.Pod(podUID)
	_, e, reserved := c.shard.Ledger.Entry(podUID)
	doc, there := c.shard.Ledger.Doc(d.NodeUID)
	hw := doc.HighWater(ledger.KindPod)
	if !there {
		hw = c.shard.Ledger.HighWater(ledger.KindPod)
	}
	_, binding := c.binding[d.ID]
	switch {
	case binding && known && pod.NodeName != "":
		return // looked at when the plugin has returned
	case known && pod.NodeName == d.Node:
		delete(c.bindable, podUID)
		d.Over = true
		c.perform(d, step.ActBound)
	case known && pod.NodeName != "":
	case reserved && e.Token == d.Token, c.shard.View.PodProgress() < hw:
		return
	}
	delete(c.bindable, podUID)
	c.Undo(d, false)
}

// SeeAll looks at all reservations that plugins know of.
func (c *Plugins) SeeAll() {
	if len(c.bindable) == 0 {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(c.bindable)) {
		c.seeBound(uid)
	}
}

// preparable tells whether one more pod of a profile whose plugins act may be tried.
func (c *Plugins) preparable(p *placement.Profile, pod *state.Pod) bool {
	return !p.Custom() || !c.acts(pod) || len(c.preparing) < maxPreparing
}
