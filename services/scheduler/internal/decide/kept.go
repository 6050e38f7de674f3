package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

// A place that is kept for the replacement of a pod that is moved (T12) is taken over by the
// first pod of that owner and template that fits there, in its T1. Nobody else counts it as
// room, but for pods that are more important and fit nowhere else: those oust it, in their T1
// too. A replacement that does not fit where a place is kept for it goes elsewhere, and the
// place is released when it has one.

// room is what a pick takes of a placeholder's.
type room struct {
	// token of the placeholder, 0 for none; ousted: it was not for this pod.
	token  ledger.Token
	ousted bool
	// replacement is what the pod is to the placeholder that it takes over.
	replacement ledger.Replacement
	// moved is the UID of the pod that the place was kept for the replacement of.
	moved string
}

// returnedPlaces is where pods were staged in kept places and did not get them. The document of such a node has not
// moved, and what was staged there meanwhile may have counted the room of the place as free.
type returnedPlaces struct {
	// count counts them, last is the latest of each node, by UID.
	count uint64
	last  map[string]uint64
}

// returnPlace notes that what a pick took of a placeholder's room is kept again.
func (c *Core) returnPlace(p *pick) {
	if p.room.token == 0 {
		return
	}
	if _, e, kept := c.shard.Ledger.PlanOwner(ledger.PlanID(p.room.token, false)); !kept || e.Token != p.room.token {
		return // the pod has its place
	}
	r := &c.plans.returned
	if r.last == nil {
		r.last = map[string]uint64{}
	}
	r.count++
	r.last[p.nodeUID] = r.count
	c.stirred = true
}

// stoodIn reports whether a pod is staged in a kept place on a node. What is held there beside it would have the room
// of the place, and nothing would take it back if the pod did not get the place.
func (c *Core) stoodIn(nodeUID string) bool {
	return slices.ContainsFunc(c.attempts.in(staged), func(a *attempt) bool {
		return a.pick.room.token != 0 && a.pick.nodeUID == nodeUID
	})
}

// placeKept stages a pod on a place that is kept for it; false if there is none where it fits.
// done says that there is nothing more to decide now.
func (c *Core) placeKept(
	a *attempt, profile *placement.Profile, concern *guard.Concern, avoided []string,
) (done bool) {
	a.missed = nil
	for _, k := range c.shard.View.KeptFor(a.pod) {
		if c.shard.Gate.Late(k.Node) {
			c.attempts.append(deferred, a)
			return true
		}
		if slices.Contains(avoided, k.Node.Node.UID) || !c.fitsKept(a.pod, profile, concern, k) {
			a.missed = append(a.missed, k.Entry.Plan)
			continue
		}
		c.stageIn(a, concern, k, room{
			token: k.Entry.Token, replacement: k.Entry.Replacement, moved: k.Entry.PodUID,
		})
		return true
	}
	return false
}

// fitsKept says whether a pod fits in the place of a placeholder.
func (c *Core) fitsKept(pod *state.Pod, profile *placement.Profile, concern *guard.Concern, k view.Kept) bool {
	if !c.shard.Gate.Usable(k.Node) {
		return false
	}
	in := placement.Input{Pod: pod, Nodes: []*state.NodeInfo{k.Node}, Objects: c.shard.View.Snapshot()}
	if !concern.None() {
		in.Nodes = c.shard.View.Nodes()
	}
	gone := map[string]bool{view.PlaceholderUID(k.Entry.Token): true}
	fits, _, err := profile.FitsWithout(in, k.Node, gone)
	return err == nil && fits && !c.restsOnHolds(in, profile, concern, k.Node, gone)
}

// stageIn stages an attempt in a placeholder's room, or makes it wait for what its rules about
// other nodes need there.
func (c *Core) stageIn(a *attempt, concern *guard.Concern, k view.Kept, r room) {
	profile := c.shard.Profiles[a.pod.SchedulerName]
	one := []placement.Scored{{Node: k.Node}}
	node, n := c.choose(a, concern, one)
	if node == nil {
		c.attempts.append(deferred, a)
		return
	}
	if !c.registered(a, n, claims.Supply{}) {
		return
	}
	a.pick = c.pickOf(a, node, n)
	a.pick.feasible, a.pick.room = 1, r
	found := looked{Result: placement.Result{Feasible: one}, basis: c.basis(profile, c.shard.Avoid.AvoidedBy(a.pod, c.shard.Now))}
	found.basis.Way = events.WayKept
	if r.ousted {
		found.basis.Way = events.WayOusted
	}
	a.pick.evidence = c.chose(c.evidence(a, profile, found, 0))
	a.others = [maxAlternatives]alternative{}
	c.shard.View.StageInstead(a.pod, a.pick.nodeName, r.token)
	c.attempts.append(staged, a)
}

// enter puts the reservation of a pick into its node's document, in the place of the placeholder
// if it takes one; an error if that is gone, or the document has no room.
func (p *pick) enter(d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, error) {
	switch {
	case p.room.token == 0:
		return ledger.Place(d, e)
	case p.room.ousted:
		return ledger.Oust(d, p.room.token, e)
	default:
		return ledger.TakeOver(d, p.room.replacement, p.room.token, e)
	}
}

// oust stages a pod that fits nowhere in a room that is kept for a less important one; of
// several it takes the least important. Nobody has to go for that who would not go anyway.
func (c *Core) oust(s seeker) (done bool) {
	if isNever(s.pod) {
		return false
	}
	var list []view.Kept
	for _, uid := range c.keepingBelow(s.pod.Priority) {
		node, ok := c.shard.View.Node(uid)
		if !ok {
			continue
		}
		for _, e := range c.shard.View.KeptOn(uid, s.pod.Priority) {
			list = append(list, view.Kept{Node: node, Entry: e})
		}
	}
	slices.SortStableFunc(list, func(a, b view.Kept) int { return int(a.Entry.Priority) - int(b.Entry.Priority) })
	for _, k := range list[:min(len(list), maxDisplacements)] {
		if c.fitsKept(s.pod, s.profile, &s.concern, k) {
			c.stageIn(s.attempt, &s.concern, k, room{token: k.Entry.Token, ousted: true})
			return true
		}
	}
	return false
}

// keepingBelow are the nodes, by UID, on which a place is kept for a pod less important than a
// priority.
func (c *Core) keepingBelow(priority int32) []string {
	var nodes []string
	for uid, least := range c.plans.kept {
		if least < priority {
			nodes = append(nodes, uid)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// release is the T8 of a place that was kept for a pod which has gone elsewhere.
type release struct{ plan string }

func (r *release) kind() string { return "T8" }

func (r *release) done(c *Core, _ int64) { c.plans.budgets.stale = true }

// tooLarge: what is left is the binders' to sweep.
func (r *release) tooLarge(*Core, string) {}

func (r *release) undone(c *Core, _ ledger.Lost) {
	c.plans.releases = append(c.plans.releases, r.plan)
}

// missedPlaces notes, when a pod has a place, that one of those kept for it will not be wanted:
// the first of which the pod that it replaces is going. (Before that it is no replacement, but
// one more.)
func (c *Core) missedPlaces(a *attempt) {
	for _, plan := range a.missed {
		_, e, ok := c.shard.Ledger.PlanOwner(plan)
		if !ok || e.Role != ledger.RoleMove || slices.Contains(c.plans.releases, plan) {
			continue
		}
		if _, victim, claimed := c.shard.Ledger.Victim(e.PodUID); claimed {
			if fate, _ := c.shard.View.VictimFate(victim.PodUID, victim.PodRV); fate == ledger.Staying {
				continue
			}
		}
		c.plans.releases = append(c.plans.releases, plan)
		return
	}
}

// releaseOne sends T8 for a place that nobody will want; true if it is on its way.
func (c *Core) releaseOne() bool {
	for len(c.plans.releases) > 0 {
		plan := c.plans.releases[0]
		c.plans.releases = c.plans.releases[1:]
		if _, e, ok := c.shard.Ledger.PlanOwner(plan); !ok || e.Role != ledger.RoleMove {
			continue
		}
		// What cannot be sent is released by the binders, after a while.
		if c.sendAbort(&release{plan: plan}, c.abortOf(plan), "") == nil {
			return true
		}
	}
	return false
}
