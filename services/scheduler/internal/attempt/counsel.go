package attempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Counsel is the state of an attempt towards custom plugins and extenders: their answers and the open question.
type Counsel struct {
	// Opinions is nil until there is an answer, guidance also if that has none.
	Opinions map[string]placement.Opinion
	Guidance *placement.Guidance
	// Shown are the nodes as custom plugins were shown them, by name, for the question of that ID; nil where
	// there are none.
	Shown    map[string]*state.NodeInfo
	ShownFor uint64
	// From is what the question was asked on.
	From Standpoint
	// Questions is how often it has asked; everywhere: not about the nominated node alone, as it has
	// now if alone is set.
	Questions         int
	Everywhere, Alone bool
	Victims           VictimCounsel
}

// Forget has an attempt ask anew.
func (c *Counsel) Forget() {
	c.Opinions = nil
	c.Guidance = nil
	c.Shown = nil
	c.Victims = VictimCounsel{}
}

// Outdated reports whether custom plugins were shown a node otherwise than it is, or do not know all that stands
// there.
func (c *Counsel) Outdated(n *state.NodeInfo) bool {
	if c.Shown == nil {
		return false
	}
	shown, ok := c.Shown[n.Node.Name]
	return !ok || shown.Generation != n.Generation || n.UndescribedPods() > 0
}

// VictimCounsel is what an attempt has to do with extenders that are asked who may go for it.
type VictimCounsel struct {
	// Answered: left is what they have left of the candidates.
	Answered bool
	Left     []preempt.Candidate
}

// Standpoint is what a look rests on: what comes later may lead to another end.
type Standpoint struct {
	Facts     state.Position
	Ledger    int64
	Withdrawn uint64
}

// Rejection is an attempt that fits nowhere, next to pods that are staged and may yet be
// taken back. If one is, it leaves room that no fact and no change of the ledger ever
// shows: a pod that was parked on its account would wait for nothing. So the verdict waits for
// what it has counted, which takes a transaction or two; other attempts go on meanwhile.
type Rejection struct {
	Attempt  *Attempt
	Decision events.Decision
	// Counted are the pods that were staged, withdrawn how many had been taken back before.
	Counted   []string
	Withdrawn uint64
	// Unsettled: there are promises of devices that may be taken back without an event.
	Unsettled bool
	// OnHold: next to the pods whose places are held it would fit.
	OnHold bool
}

// Awaits says that the pod waits also for what concerns a plugin. DefaultPreemption: for pods that may not go now,
// for budgets with more room, and for the end of plans (see rule.ObjectChange and the queue's LedgerMoved).
func (r *Rejection) Awaits(plugin string) {
	if slices.Contains(r.Decision.Plugins, plugin) {
		return
	}
	r.Decision.Plugins = append(slices.Clone(r.Decision.Plugins), plugin)
	slices.Sort(r.Decision.Plugins)
}

// Deal is what plugins have agreed to about a pod and its node.
type Deal struct {
	ID      uint64
	Attempt *Attempt
	// NodeUID and node are the place, token that of its reservation.
	NodeUID, Node string
	Token         ledger.Token
	// Later: there is something left to do. outcome is what came of that; nil until then.
	Later   bool
	Outcome *step.Performed
	// Over: plugins have nothing more to do with it.
	Over bool
	// Asked: plugins must be asked to bind. delegated: the reservation leaves the bind to them.
	Asked, Delegated bool
	// Revision is where the reservation became Committed.
	Revision int64
}

// Delegate reports whether a reservation that gives the pod's claims something is left to plugins to bind: not
// if binders have to do something about the claims first.
func (d *Deal) Delegate(v claims.Supply) bool {
	d.Delegated = d.Asked && v.NoWork()
	return d.Delegated
}
