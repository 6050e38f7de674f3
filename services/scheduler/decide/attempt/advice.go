package attempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Advice holds the answers of custom plugins and extenders about an attempt, and the open question to them.
type Advice struct {
	// Opinions is nil until an answer has arrived. Guidance is nil until then, and also if the answer has none.
	Opinions map[string]placement.Opinion
	Guidance *placement.Guidance
	// Shown are the nodes as they were shown to custom plugins with question ShownFor, by name; nil if the profile
	// has no custom plugins.
	Shown    map[string]*state.NodeInfo
	ShownFor uint64
	// From are the positions at which the question was asked.
	From Positions
	// Questions is how often the attempt has asked. Everywhere: it asks about all nodes, and not only about the
	// nominated one. Alone: the current question is about the nominated node only.
	Questions         int
	Everywhere, Alone bool
	Victims           VictimAdvice
}

// Forget drops all answers, so that the attempt asks again.
func (c *Advice) Forget() {
	c.Opinions = nil
	c.Guidance = nil
	c.Shown = nil
	c.Victims = VictimAdvice{}
}

// Outdated reports whether a node has changed since it was shown to custom plugins, was not shown to them, or has
// pods that no fact describes.
func (c *Advice) Outdated(n *state.NodeInfo) bool {
	if c.Shown == nil {
		return false
	}
	shown, ok := c.Shown[n.Node.Name]
	return !ok || shown.Generation != n.Generation || n.UndescribedPods() > 0
}

// VictimAdvice is the answer of the extenders that are asked about victims.
type VictimAdvice struct {
	// Answered: the extenders have answered. Accepted are the candidates that they accept.
	Answered bool
	Accepted []preempt.Candidate
}

// Positions is the set of positions that a decision depends on. Changes after them may lead to another result.
type Positions struct {
	Facts     state.Position
	Ledger    int64
	Withdrawn uint64
}

// Rejection is the verdict on an attempt that fits nowhere. The verdict has counted pods that are staged and may
// still be withdrawn. Withdrawing a pod frees room without a fact or a change of the ledger, so that no event would
// ever wake a pod that was parked because of it. The verdict therefore waits until the pods that it has counted are
// settled, which takes one or two transactions. Other attempts continue in the meantime.
type Rejection struct {
	Attempt  *Attempt
	Decision events.Decision
	// Counted are the pods that were staged. Withdrawn is how many had been withdrawn before.
	Counted   []string
	Withdrawn uint64
	// Unsettled: devices are promised to other pods, and such a promise may end without an event.
	Unsettled bool
	// DependsOnHolds: the pod would fit if the pods whose places are held were already there.
	DependsOnHolds bool
	// Together: the pod is a member of a gang, and it is the gang that cannot be placed. Others are the verdicts on the
	// other members of a gang, which are recorded with this one.
	Together bool
	Others   []events.Decision
	// Gang is the gang if evictions could make room for it; nil otherwise.
	Gang *gang.Group
}

// WakeOn adds a plugin to those whose events wake the pod. DefaultPreemption stands for pods that must not be
// victims now, for disruption budgets with more room, and for the end of plans (see rule.ObjectChange and the
// queue's LedgerMoved).
func (r *Rejection) WakeOn(plugin string) {
	if slices.Contains(r.Decision.Plugins, plugin) {
		return
	}
	r.Decision.Plugins = append(slices.Clone(r.Decision.Plugins), plugin)
	slices.Sort(r.Decision.Plugins)
}

// PluginBinding is the agreement of plugins to place a pod on a node.
type PluginBinding struct {
	ID      uint64
	Attempt *Attempt
	// NodeUID and Node are the node. Token is the token of the reservation.
	NodeUID, Node string
	Token         ledger.Token
	// WorkLeft: plugins have work left before the bind. Outcome is its result; nil until then.
	WorkLeft bool
	Outcome  *step.PluginResult
	// Ended: plugins have nothing more to do for it.
	Ended bool
	// BindRequested: plugins must be asked to bind. Delegated: the reservation leaves the bind to them.
	BindRequested, Delegated bool
	// Revision is the ledger revision at which the reservation became Committed.
	Revision int64
}

// Delegate decides whether the bind is left to plugins, notes that, and returns it: not if binders must
// first do work for the pod's claims.
func (d *PluginBinding) Delegate(v claims.Supply) bool {
	d.Delegated = d.BindRequested && v.NoWork()
	return d.Delegated
}
