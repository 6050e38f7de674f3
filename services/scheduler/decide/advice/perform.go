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
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Custom plugins that act once a node has been chosen (Config.Acts) are called in two parts, as upstream has a
// scheduling cycle and a binding cycle.
//
//	chosen, staged ──ActReserve──► nothing left to do ──► T1: Committed ──(ActBind)──► bound ──ActBound──►
//	                      └──► something left ──► T1: Held ──ActPrepare──► T3: Committed ──┘
//
// ActReserve is Reserve and Permit, and belongs to the cycle of the question that led to the choice: no other
// question is sent before it is answered. Usually nothing is left to do then, and the reservation is like any other.
// If Permit makes the pod wait, or work is left before the bind, its place is Held in the ledger for that time,
// under a plan of its own (txns.PreparedPlan): it counts for all shards, no binder binds it, and a more important
// pod may take it (T4). ActPrepare does the remaining work; depending on its result the place is promoted or given
// up.
//
// Plugins that bind do so when the reservation is Committed and marked so that binders leave the bind to them
// (ledger.Entry.Delegated, bindby.go).
//
// If it ends in any other way (a lost race, a place that was taken, a pod that is gone, a bind that failed), the
// plugins are asked to undo it (ActUndo), once. Plugins that have refused or failed have done so themselves. A shard
// that does not know the plugins' agreement on a held place gives the place up: the process that had the plugins'
// state is gone.

const (
	// maxPreparing is how many pods of a shard may be at ActPrepare, as whole groups wait at Permit for their last
	// pod. Further pods are not tried until there are fewer.
	maxPreparing = 1024
)

// Plugins is the work of plugins on chosen nodes. The maps are keyed by IDs of questions, except bindable.
type Plugins struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	// actsFor and postFiltersFor are the scheduler names of profiles with plugins that act, or have PostFilter.
	actsFor, postFiltersFor map[string]bool
	plans                   Plans
	// ReleaseUnfit notes the places kept for the pod of an attempt that it did not take.
	ReleaseUnfit func(*attempt.Attempt)

	// preparing are holds at ActPrepare, binding reservations at ActBind. undoing are the agreements with an ActUndo in
	// progress; the value is true if it belongs to a cycle. (Attempts at ActReserve and ActPostFilter are in phases
	// of their own.)
	preparing map[uint64]*attempt.PluginBinding
	binding   map[uint64]*attempt.PluginBinding
	undoing   map[uint64]bool
	// bindable are the agreements on reservations that binders may bind, by pod UID.
	bindable map[string]*attempt.PluginBinding
}

// NewPlugins returns the Plugins of a shard without any work in progress. acts and postFilters hold the scheduler
// names whose plugins act, and are asked about pods that fit nowhere.
func NewPlugins(life *lifecycle.Attempts, p Plans, acts, postFilters map[string]bool) *Plugins {
	return &Plugins{
		shard: life.Shard, attempts: life.Attempts, record: life.Record, effects: life.Record.Effects, life: life,
		actsFor: acts, postFiltersFor: postFilters, plans: p,
		preparing: map[uint64]*attempt.PluginBinding{}, binding: map[uint64]*attempt.PluginBinding{},
		undoing: map[uint64]bool{}, bindable: map[string]*attempt.PluginBinding{},
	}
}

// Plans is the part of preemption that plugins and extenders use.
type Plans interface {
	// HoldPlace holds the place of an agreement while plugins prepare the bind.
	HoldPlace(d *attempt.PluginBinding)
	// Prepared applies that plugins have prepared the bind, or have failed to.
	Prepared(d *attempt.PluginBinding)
	// Vetted applies what extenders have answered about the place of a plan.
	Vetted(plan string, advice step.Advice)
	// LineUp makes an attempt that fits nowhere wait for its turn to look for victims.
	LineUp(r attempt.Rejection)
	// Reject ends an attempt that fits nowhere, as soon as that is certain.
	Reject(r attempt.Rejection)
}

// undoesInCycle reports whether plugins are undoing something that belongs to a cycle.
func (pl *Plugins) undoesInCycle() bool {
	for _, cycle := range pl.undoing {
		if cycle {
			return true
		}
	}
	return false
}

// Idle reports whether plugins have no work in progress for this shard.
func (pl *Plugins) Idle() bool {
	return len(pl.preparing)+len(pl.binding)+len(pl.undoing) == 0
}

// ActFor reports whether plugins act for a profile.
func (pl *Plugins) ActFor(schedulerName string) bool { return pl.actsFor[schedulerName] }

// Proceed continues with an attempt that has been staged: plugins come first, if they act.
func (pl *Plugins) Proceed(a *attempt.Attempt) {
	if !pl.actsFor[a.Pod.SchedulerName] {
		pl.attempts.Append(attempt.Staged, a)
		return
	}
	a.Plugins = &attempt.PluginBinding{
		ID: a.Advice.ShownFor, Attempt: a, NodeUID: a.Pick.NodeUID, Node: a.Pick.NodeName, Token: a.Token(),
	}
	pl.attempts.Await(a, attempt.Reserving, a.Plugins.ID)
	pl.perform(a.Plugins, step.ActReserve)
}

func (pl *Plugins) perform(d *attempt.PluginBinding, act step.PluginAct) {
	pod := d.Attempt.Pod
	pl.effects.Perform(step.PluginRequest{
		ID: d.ID, Act: act, Shard: pl.shard.ID, SchedulerName: pod.SchedulerName, Pod: pod, Node: d.Node,
	})
}

// Undo makes plugins take back what they have reserved, unless they have nothing more to do.
func (pl *Plugins) Undo(d *attempt.PluginBinding, inCycle bool) {
	if d == nil || d.Ended {
		return
	}
	d.Ended = true
	pl.undoing[d.ID] = inCycle
	pl.perform(d, step.ActUndo)
}

// UndoInCycle makes plugins take back what they have reserved in the cycle in progress.
func (pl *Plugins) UndoInCycle(d *attempt.PluginBinding) { pl.Undo(d, true) }

// OnResult applies an answer. Its attempt may have ended.
func (pl *Plugins) OnResult(p step.PluginResult) {
	switch p.Act {
	case step.ActReserve:
		if a, waits := pl.attempts.TakeAnswered(attempt.Reserving, p.ID); waits {
			pl.reserved(a, p)
		}
	case step.ActPrepare:
		d, known := pl.preparing[p.ID]
		delete(pl.preparing, p.ID)
		if !known || d.Ended {
			return
		}
		d.Outcome, d.Ended = &p, p.Failed()
		pl.plans.Prepared(d)
	case step.ActUndo:
		delete(pl.undoing, p.ID)
	case step.ActBind:
		pl.bindEnded(p)
	case step.ActPostFilter:
		pl.postFiltered(p)
	case step.ActBound:
	}
}

// reserved continues with an attempt after plugins have reserved, or failed to.
func (pl *Plugins) reserved(a *attempt.Attempt, p step.PluginResult) {
	switch {
	case p.Refusal != nil:
		a.Plugins = nil
		d := pl.refusal(a, p.Refusal)
		d.LedgerRevision = a.Advice.From.Ledger
		pl.life.Unplaceable(attempt.Rejection{Attempt: a, Decision: d})
	case p.Err != nil:
		a.Plugins = nil
		pl.life.Fail(a, p.Err.Error())
	default:
		a.Plugins.WorkLeft, a.Plugins.BindRequested = p.Later, p.Binds
		pl.attempts.Append(attempt.Staged, a)
	}
}

// refusal returns the verdict on a pod that a plugin has refused on its node, with upstream's message (FitError in
// pkg/scheduler/framework/types.go, for one node). The verdict is as of the question.
func (pl *Plugins) refusal(a *attempt.Attempt, r *step.Refusal) events.Decision {
	d := pl.record.Decision(events.DecisionUnplaceable, a)
	from := a.Advice.From.Facts
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

// OnCommitted continues with the plugins of an attempt whose reservation has been committed at revision; false if
// plugins have work left before the bind.
func (pl *Plugins) OnCommitted(a *attempt.Attempt, revision int64) (bindable bool) {
	d := a.Plugins
	a.Plugins = nil
	switch {
	case d == nil:
		return true
	case !d.WorkLeft && !d.Delegated:
		pl.bindable[a.Offer.Pod.UID] = d
		return true
	case !d.WorkLeft:
		pl.record.FinalEvidence(a) // it is recorded when plugins have answered
		pl.ReleaseUnfit(a)
		pl.life.Drop(a)
		pl.StartBind(d, revision)
		return false
	}
	// Decisions that have counted the pod as certain to be there must be made again.
	pl.life.Withdraw()
	pl.record.FinalEvidence(a) // it is recorded when the preparation has ended
	pl.life.Drop(a)
	if pl.shard.Draining {
		pl.Undo(d, false)
		return false
	}
	pl.plans.HoldPlace(d)
	pl.preparing[d.ID] = d
	pl.perform(d, step.ActPrepare)
	return false
}

// ReportFailed ends the attempt of a place that was given up because plugins refused it or failed; false if that was
// not the reason.
func (pl *Plugins) ReportFailed(d *attempt.PluginBinding, revision int64) bool {
	if d == nil || d.Outcome == nil || !d.Outcome.Failed() {
		return false
	}
	a := d.Attempt
	if r := d.Outcome.Refusal; r != nil {
		verdict := pl.refusal(a, r)
		verdict.LedgerRevision = revision
		verdict.StaleNomination = d.Node // which binders have written meanwhile
		pl.record.Unplaceable(a, verdict)
		return true
	}
	pl.record.Failed(a, d.Outcome.Err.Error())
	return true
}

// HoldRemoved continues with an agreement whose hold no longer exists.
func (pl *Plugins) HoldRemoved(podUID string, d *attempt.PluginBinding) {
	if d == nil {
		return
	}
	if _, e, ok := pl.shard.Ledger.Entry(podUID); ok && e.Token == d.Token && e.State != ledger.Held {
		pl.bindable[podUID] = d // promoted
		return
	}
	pl.Undo(d, false)
}

// WatchBind notes that a reservation on which plugins have acted can be bound.
func (pl *Plugins) WatchBind(podUID string, d *attempt.PluginBinding) { pl.bindable[podUID] = d }

// FollowFacts applies changes of pods.
func (pl *Plugins) FollowFacts(pods []state.PodChange) {
	for i := range pods {
		if len(pl.bindable) == 0 {
			return
		}
		if p := pods[i].After; p != nil {
			pl.checkBound(p.UID)
		} else {
			pl.checkBound(pods[i].Before.UID)
		}
	}
}

// FollowLedger applies changes of the ledger's entries of some pods.
func (pl *Plugins) FollowLedger(podUIDs []string) {
	if len(pl.bindable) == 0 {
		return
	}
	for _, uid := range podUIDs {
		pl.checkBound(uid)
	}
}

// checkBound makes plugins act on a pod that is bound, or will not be bound by the reservation that they know.
func (pl *Plugins) checkBound(podUID string) {
	d, ok := pl.bindable[podUID]
	if !ok {
		return
	}
	pod, known := pl.shard.View.Pod(podUID)
	_, e, reserved := pl.shard.Ledger.Entry(podUID)
	doc, there := pl.shard.Ledger.Doc(d.NodeUID)
	hw := doc.HighWater(ledger.KindPod)
	if !there {
		hw = pl.shard.Ledger.HighWater(ledger.KindPod)
	}
	_, binding := pl.binding[d.ID]
	switch {
	case binding && known && pod.NodeName != "":
		return // handled when the plugin has returned
	case known && pod.NodeName == d.Node:
		delete(pl.bindable, podUID)
		d.Ended = true
		pl.perform(d, step.ActBound)
	case known && pod.NodeName != "":
	case reserved && e.Token == d.Token, pl.shard.View.TxnFacts().PodProgress() < hw:
		return
	}
	delete(pl.bindable, podUID)
	pl.Undo(d, false)
}

// CheckBindable checks all reservations that plugins know.
func (pl *Plugins) CheckBindable() {
	if len(pl.bindable) == 0 {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(pl.bindable)) {
		pl.checkBound(uid)
	}
}

// preparable reports whether one more pod of a profile whose plugins act may be tried.
func (pl *Plugins) preparable(p *placement.Profile, pod *state.Pod) bool {
	return !p.Custom() || !pl.actsFor[pod.SchedulerName] || len(pl.preparing) < maxPreparing
}
